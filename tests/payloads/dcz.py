"""Another implementation of zstd with a dictionary as raw content, for tests/it/payloads.rs.

usage: dcz.py --compress|--decompress DICTIONARY        reads a frame or its content from stdin, writes the other
"""

import pathlib
import sys

import zstandard

direction, dictionary = sys.argv[1:]
raw = zstandard.ZstdCompressionDict(pathlib.Path(dictionary).read_bytes(), dict_type=zstandard.DICT_TYPE_RAWCONTENT)
data = sys.stdin.buffer.read()
if direction == "--compress":
    out = zstandard.ZstdCompressor(dict_data=raw, write_dict_id=False).compress(data)
else:
    out = zstandard.ZstdDecompressor(dict_data=raw).decompressobj().decompress(data)
sys.stdout.buffer.write(out)
