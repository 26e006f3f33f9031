"""The payload tests' Python client: an application that reads records as Protobuf with requests and protobuf.

usage: records.py BASE DESCRIPTOR_SET MESSAGE

One request a line of standard input (`{"path", "headers"}`), one answer a line of standard output: status, header
lines, and what the body says, as the library reads it.
"""

import json
import sys

import requests
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.rpc import error_details_pb2, status_pb2

PROTOBUF = "application/x-protobuf"


def message_class(path, name):
    pool = descriptor_pool.DescriptorPool()
    with open(path, "rb") as file:
        for proto in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
            pool.Add(proto)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def said(answer, record):
    if answer.headers.get("Content-Type") != PROTOBUF:
        return {"text": answer.text}
    if answer.ok:
        return {"record": json_format.MessageToDict(record.FromString(answer.content))}
    status, info = status_pb2.Status.FromString(answer.content), error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return {"code": status.code, "message": status.message, "reason": info.reason, "domain": info.domain}


def main():
    base, descriptors, name = sys.argv[1:]
    record = message_class(descriptors, name)
    session = requests.Session()
    session.trust_env = False
    session.headers["Accept"] = PROTOBUF
    for line in sys.stdin:
        asked = json.loads(line)
        answer = session.get(base + asked["path"], headers=asked["headers"], timeout=60)
        headers = {key.lower(): value for key, value in answer.headers.items()}
        print(json.dumps({"status": answer.status_code, "headers": headers, **said(answer, record)}), flush=True)


main()
