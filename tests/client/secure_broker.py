"""A secure proxy in front of a node: TLS and SASL as in a Kafka broker, and behind them the node's own protocol."""

import base64
import hashlib
import hmac
import secrets
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.headers import Request, decode_request, encode_response_header
from kraft.protocol.message import Message
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.protocol.messages.sasl_handshake_response import SaslHandshakeResponse

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")

USER, PASSWORD = "alice, =", "secret"
ITERATIONS = 4_096
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def make_certificates(directory: Path) -> None:
    """Create `ca.pem`, and signed by it `server.pem` (for localhost) and `client.pem`, each with its key.

    `other.pem` is another authority.
    """
    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    for name in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout",
                f"{name}.key", "-out", f"{name}.pem")
    (directory / "names").write_text("subjectAltName=DNS:localhost")
    for name in ("server", "client"):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out",
                f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days",
                "2", "-out", f"{name}.crt", "-extfile", "names")
        (directory / f"{name}.pem").write_text((directory / f"{name}.key").read_text()
                                               + (directory / f"{name}.crt").read_text())


@contextmanager
def secure_door(port: int, behind: int, *, certificates: Path | None = None, sasl: bool = False,
                wants_client: bool = False) -> Iterator[str]:
    """Run a listener on `port` that forwards authenticated connections to port `behind`; yield its address."""
    context = None
    if certificates is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "server.pem")
        if wants_client:
            context.load_verify_locations(certificates / "ca.pem")
            context.verify_mode = ssl.CERT_REQUIRED
    listener = socket.create_server(("127.0.0.1", port))
    sockets: list[socket.socket] = [listener]
    threads: list[threading.Thread] = []

    def serve(plain: socket.socket) -> None:
        sockets.append(plain)
        with ExitStack() as opened:
            opened.callback(plain.close)
            try:
                client = opened.enter_context(context.wrap_socket(plain, server_side=True)) if context else plain
                sockets.append(client)
                node = opened.enter_context(socket.create_connection(("127.0.0.1", behind)))
                sockets.append(node)
                if not sasl or Gate(client, node).passed():
                    back = run(pump, node, client)
                    pump(client, node)
                    back.join()
            except OSError:
                pass      # the client has disconnected, or its TLS does not fit

    def run(function: object, *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=function, args=arguments)  # type: ignore[arg-type]
        threads.append(thread)
        thread.start()
        return thread

    def accept() -> None:
        while True:
            try:
                run(serve, listener.accept()[0])
            except OSError:
                return

    run(accept)
    try:
        yield f"localhost:{port}"
    finally:
        for each in list(sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in list(threads):
            thread.join(10)


def pump(source: socket.socket, target: socket.socket) -> None:
    """Forward bytes until one side ends."""
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        pass
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


class Gate:
    """Serve one connection until its user is known: one request for versions passes, any other ends it."""

    def __init__(self, client: socket.socket, node: socket.socket) -> None:
        self.client, self.node = client, node

    def passed(self) -> bool:
        exchange: ServerExchange | None = None
        queried = False
        while True:
            frame = receive(self.client)
            if int.from_bytes(frame[:2], "big") == ApiVersionsRequest.API_KEY and not queried:
                queried = True
                self.node.sendall(len(frame).to_bytes(4, "big") + frame)
                answer = receive(self.node)
                self.client.sendall(len(answer).to_bytes(4, "big") + answer)
                continue
            request = decode_request(frame)
            version = request.header.request_api_version
            if request.api.key == SaslHandshakeRequest.API_KEY:
                message = SaslHandshakeRequest.decode(request.body, version)
                known = message.mechanism in MECHANISMS
                exchange = ServerExchange(message.mechanism) if known else None
                self._answer(request, SaslHandshakeResponse(error_code=0 if known else 33, mechanisms=MECHANISMS))
            elif request.api.key == SaslAuthenticateRequest.API_KEY and exchange is not None:
                proof = bytes(SaslAuthenticateRequest.decode(request.body, version).auth_bytes)
                content, done, accepted = exchange.step(proof)
                self._answer(request, SaslAuthenticateResponse(
                    error_code=0 if accepted else 58, error_message=None if accepted else "Authentication failed",
                    auth_bytes=content))
                if done:
                    return accepted
            else:
                return False

    def _answer(self, request: Request, response: Message) -> None:
        version = request.header.request_api_version
        content = encode_response_header(API_BY_KEY[response.API_KEY], version, request.header.correlation_id)
        content += response.encode(version)
        self.client.sendall(len(content).to_bytes(4, "big") + content)


def receive(source: socket.socket) -> bytes:
    """The next frame without its length."""
    def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = source.recv(size - len(data))
            if not part:
                raise OSError("closed")
            data += part
        return data

    return exactly(int.from_bytes(exactly(4), "big"))


class ServerExchange:
    """A server's side of a mechanism, for one user."""

    def __init__(self, mechanism: str) -> None:
        self.mechanism = mechanism
        self.digest = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}.get(mechanism, "")
        self.salt, self.nonce = secrets.token_bytes(16), secrets.token_hex(8)
        self.first = self.answer = ""

    def step(self, message: bytes) -> tuple[bytes, bool, bool]:
        """(answer, whether that was the last step, whether the user is known)."""
        if not self.digest:
            return b"", True, message == f"\0{USER}\0{PASSWORD}".encode()
        if not self.first:
            self.first = message.decode()[3:]
            name, nonce = self.first.removeprefix("n=").split(",r=")
            self.nonce = nonce + self.nonce
            if name.replace("=2C", ",").replace("=3D", "=") != USER:
                return b"", True, False
            self.answer = f"r={self.nonce},s={base64.b64encode(self.salt).decode()},i={ITERATIONS}"
            return self.answer.encode(), False, True
        final, _, proof = message.decode().partition(",p=")
        salted = hashlib.pbkdf2_hmac(self.digest, PASSWORD.encode(), self.salt, ITERATIONS)
        stored = hashlib.new(self.digest, hmac.digest(salted, b"Client Key", self.digest)).digest()
        signed = f"{self.first},{self.answer},{final}".encode()
        signature = hmac.digest(stored, signed, self.digest)
        client_key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self.digest, client_key).digest() != stored:
            return b"", True, False
        verifier = hmac.digest(hmac.digest(salted, b"Server Key", self.digest), signed, self.digest)
        return b"v=" + base64.b64encode(verifier), True, True
