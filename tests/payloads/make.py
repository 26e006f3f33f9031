"""Turns the airports of the package airportsdata into what `nearside-lab bench --only payload` reads.

usage: make.py DIRECTORY

Writes `trained.jsonl` and `measured.jsonl`, a record on each line, and for each form a dictionary that zstd's own trainer
made of the first, with its SHA-256 hash. Which half a record is in depends on its key alone, so that the same package
gives the same files.
"""

import hashlib
import json
import pathlib
import struct
import sys

import airportsdata
import zstandard

DICTIONARY_BYTES = 112_640  # what `zstd --train` makes
FIELDS = ("icao", "iata", "name", "city", "subd", "country", "elevation", "lat", "lon", "tz", "lid")


def drawn(key):
    return hashlib.sha256(key.encode()).digest()


def as_json(record):
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def as_protobuf(record):
    """The message `Airport` of src/lab/bench/payloads/airports.rs, without a Protobuf library."""
    out = b""
    for number, name in enumerate(FIELDS, 1):
        value = record[name]
        if isinstance(value, str) and value:
            out += bytes([number << 3 | 2]) + varint(len(value.encode())) + value.encode()
        elif isinstance(value, int) and value:
            out += bytes([number << 3]) + varint(value << 1 if value > 0 else ~value << 1 | 1)
        elif isinstance(value, float) and value:
            out += bytes([number << 3 | 1]) + struct.pack("<d", value)
    return out


def main():
    directory = pathlib.Path(sys.argv[1])
    airports = airportsdata.load("ICAO")
    halves = {"trained": [], "measured": []}
    for key in sorted(airports, key=drawn):
        airport = airports[key] | {"elevation": int(airports[key]["elevation"])}
        halves["measured" if drawn(key)[-1] & 1 else "trained"].append({name: airport[name] for name in FIELDS})
    for name, records in halves.items():
        (directory / f"{name}.jsonl").write_bytes(b"".join(as_json(record) + b"\n" for record in records))
    for name, written in (("json", as_json), ("protobuf", as_protobuf)):
        samples = [written(record) for record in halves["trained"]]
        trained = zstandard.train_dictionary(DICTIONARY_BYTES, samples).as_bytes()
        (directory / f"{name}.dictionary").write_bytes(trained)
        (directory / f"{name}.dictionary.sha256").write_text(hashlib.sha256(trained).hexdigest() + "\n")


main()
