"""The drop-in tests' Python client: what an application does with requests, knowing nothing of Nearside.

usage: with_requests.py BASE        BASE is http://HOST:PORT or unix:PATH

Reads steps as JSON from standard input, sends them one after another through one Session, and prints what came and
how many connections that took.
"""

import hashlib
import json
import socket
import sys

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool


class OverUnixSocket(HTTPAdapter):
    """requests over a Unix socket: the URL's host is a name only."""

    def __init__(self, path):
        class Connection(HTTPConnection):
            def _new_conn(self):
                stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                stream.connect(path)
                return stream

        class Pool(HTTPConnectionPool):
            ConnectionCls = Connection

        self.pool = Pool("localhost")
        super().__init__()

    def get_connection_with_tls_context(self, request, verify, proxies=None, cert=None):
        return self.pool


def main():
    base = sys.argv[1]
    session = requests.Session()
    session.trust_env = False
    if base.startswith("unix:"):
        over = OverUnixSocket(base[len("unix:"):])
        session.mount("http://", over)
        base, pools = "http://localhost", {"": over.pool}
    else:
        pools = session.get_adapter(base).poolmanager.pools
    answers = []
    for step in json.load(sys.stdin):
        body = step["body"].encode() if step["body"] is not None else None
        answer = session.request(
            step["method"], base + step["path"], headers=step["headers"], data=body, allow_redirects=False, timeout=60
        )
        answers.append({
            "status": answer.status_code,
            "headers": sorted([name.lower(), value] for name, value in answer.headers.items()),
            "length": len(answer.content),
            "sha256": hashlib.sha256(answer.content).hexdigest(),
        })
    json.dump({"connections": sum(pools[key].num_connections for key in pools.keys()), "answers": answers}, sys.stdout)


main()
