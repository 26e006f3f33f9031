"""An OAuth server for clients of their own (RFC 6749, 4.4), by oauthlib: prints its URL, then every token that it
issues, a line each. It knows one client, given as arguments: its id, its secret and the scope that it may ask for."""

import base64
import http.server
import sys
import urllib.parse

from oauthlib.oauth2 import BackendApplicationServer, RequestValidator

CLIENT, SECRET, SCOPE = sys.argv[1:]


def say(line):
    print(line, flush=True)


class Known:
    client_id = CLIENT


class Validator(RequestValidator):
    def authenticate_client(self, request, *_args, **_kwargs):
        scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
        client, _, secret = base64.b64decode(encoded).decode().partition(":")
        request.client = Known()
        return scheme == "Basic" and [urllib.parse.unquote_plus(text) for text in (client, secret)] == [CLIENT, SECRET]

    def validate_grant_type(self, _client_id, grant_type, *_args, **_kwargs):
        return grant_type == "client_credentials"

    def validate_scopes(self, _client_id, scopes, *_args, **_kwargs):
        return set(scopes) <= set(SCOPE.split())

    def get_default_scopes(self, *_args, **_kwargs):
        return []

    def save_bearer_token(self, token, *_args, **_kwargs):
        say(token["access_token"])


SERVER = BackendApplicationServer(Validator(), token_expires_in=900)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        # oauthlib asks for https, and answers for it: nobody but this machine hears of this one.
        uri = "https://localhost" + self.path
        headers, answer, status = SERVER.create_token_response(uri, "POST", body, dict(self.headers))
        answer = answer.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_args):
        pass


LISTENER = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
say(f"http://127.0.0.1:{LISTENER.server_port}/token")
LISTENER.serve_forever()
