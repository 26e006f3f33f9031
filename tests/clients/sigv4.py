"""Recomputes signatures of AWS (Signature Version 4) with botocore: reads a JSON list of requests, each with its method,
URL, headers as pairs and body, and prints a JSON list with what is wrong with each, or null."""

import hashlib
import json
import sys

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials


def wrong(request, secret, service):
    headers = {name.lower(): value for name, value in request["headers"]}
    scheme, _, rest = headers["authorization"].partition(" ")
    parts = dict(part.split("=", 1) for part in rest.split(", "))
    key, _date, region, *scope = parts["Credential"].split("/")
    if scheme != "AWS4-HMAC-SHA256" or scope != [service, "aws4_request"]:
        return "the scope is " + parts["Credential"]
    signed = parts["SignedHeaders"].split(";")
    unsigned = [name for name in headers if name.startswith("x-amz-") and name not in signed]
    if unsigned or "host" not in signed:
        return f"not signed: {unsigned}"
    body = request["body"].encode()
    if headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
        return "the hash is another body's"
    again = AWSRequest(request["method"], request["url"], {name: headers[name] for name in signed}, body)
    again.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials(key, secret), service, region)
    signature = auth.signature(auth.string_to_sign(again, auth.canonical_request(again)), again)
    return None if signature == parts["Signature"] else f"the signature should be {signature}"


if __name__ == "__main__":
    SECRET, SERVICE = sys.argv[1:]
    json.dump([wrong(request, SECRET, SERVICE) for request in json.load(sys.stdin)], sys.stdout)
