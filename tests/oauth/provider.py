"""An identity provider on this machine: keys, tokens that they sign, and both over HTTP."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

CLIENT, SECRET = "kraft", "s3:cret+"
AUDIENCE, ISSUER = "kafka", "https://issuer.example"
_RSA = [rsa.generate_private_key(public_exponent=65_537, key_size=2_048) for _ in range(2)]


def now_s() -> float:
    return time.time()


class SigningKey:
    """A key pair. `jwk` is its public part."""

    def __init__(self, kid: str = "k1", algorithm: str = "RS256", number: int = 0) -> None:
        self.kid = kid
        self.algorithm = algorithm
        if algorithm.startswith("ES"):
            self._private: Any = ec.generate_private_key(ec.SECP256R1())
            self.jwk: dict[str, Any] = json.loads(ECAlgorithm.to_jwk(self._private.public_key()))
        else:
            self._private = _RSA[number]
            self.jwk = json.loads(RSAAlgorithm.to_jwk(self._private.public_key()))
        self.jwk |= {"kid": kid, "use": "sig"}

    def pem(self, passphrase: str = "") -> str:
        """Return the private part."""
        how: Any = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
        text: bytes = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)
        return text.decode()

    def checked(self, token: str) -> dict[str, Any]:
        """Return header and claims of a token that this key has signed, with those of the standard checked."""
        found = jwt.decode_complete(token, self._private.public_key(), [self.algorithm], audience=AUDIENCE)
        return {"header": found["header"], "payload": found["payload"]}

    def sign(self, *, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """Return a token that is valid for an hour, unless the claims say otherwise; None removes a claim. `header`
        replaces the key's id."""
        found = {"sub": "alice", "iat": int(now_s()), "exp": int(now_s()) + 3_600, "aud": AUDIENCE, "iss": ISSUER}
        found |= claims
        used = {"kid": self.kid} if header is None else header
        return jwt.encode({key: value for key, value in found.items() if value is not None}, self._private,
                          self.algorithm, used)


def unsecured(header: dict[str, Any] | None = None, signature: str = "", **claims: Any) -> str:
    """Return an unsecured token."""
    found = {"sub": "alice", "iat": now_s(), "exp": now_s() + 3_600} | claims

    def part(fields: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()

    return f"{part(header or {'alg': 'none'})}.{part(found)}.{signature}"


def key_set(*keys: SigningKey) -> bytes:
    return json.dumps({"keys": [each.jwk for each in keys]}).encode()


class ProviderServer(ThreadingHTTPServer):
    """Answers `/keys` and `/token`. `status` other than 200 is sent to everybody. A client proves its identity by a
    secret, or by an assertion that `of_clients` has signed."""

    daemon_threads = False  # server_close waits for the connections, whose sockets would outlive the test otherwise

    def handle_error(self, *_arguments: object) -> None:
        """Print nothing: clients that do not trust it disconnect."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scheme = "http" if context is None else "https"
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.signing = SigningKey()
        self.keys = key_set(self.signing)
        self.of_clients = SigningKey("client", "ES256")
        self.status = 200
        self.life_s = 3_600.0
        self.seen: list[tuple[str, dict[str, list[str]]]] = []

    def url(self, path: str) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}/{path}"


class _Handler(BaseHTTPRequestHandler):
    server: ProviderServer

    def do_GET(self) -> None:
        self.server.seen.append((self.path, {}))
        self._send(self.server.keys)

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.seen.append((self.path, form))
        if not self._is_known(form):
            self.send_error(401)
            return
        token = self.server.signing.sign(sub=CLIENT, exp=now_s() + self.server.life_s)
        self._send(json.dumps({"access_token": token, "token_type": "Bearer"}).encode())

    def _is_known(self, form: dict[str, list[str]]) -> bool:
        if "client_assertion" not in form:
            expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
            return self.headers["Authorization"] == f"Basic {expected}"
        try:
            claims = self.server.of_clients.checked(form["client_assertion"][0])["payload"]
        except jwt.PyJWTError:
            return False
        kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        return (self.headers["Authorization"] is None and form["client_assertion_type"] == [kind]
                and claims["iss"] == CLIENT)

    def _send(self, content: bytes) -> None:
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


@contextmanager
def provider_server(context: ssl.SSLContext | None = None) -> Iterator[ProviderServer]:
    """Run a provider; with a context it has TLS."""
    server = ProviderServer(context)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
