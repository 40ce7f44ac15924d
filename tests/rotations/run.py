"""Rotate certificates, authorities, passwords and keys of tokens of a node; judge what its clients see."""

from __future__ import annotations

import secrets
import socket
import ssl
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from kraft.client import Cluster
from kraft.client.connection import Connection
from kraft.client.security import Security
from kraft.client.users import set_password
from kraft.tls.authority import Issued
from kraft_native.base.errors import KraftError
from tests.oauth.provider import SigningKey
from tests.rotations.node import CA, DAYS, HOST, MECHANISM, Client, Load, RotatedNode, seconds_accepted

CLIENTS: Final = 2
REVOKED_SECONDS_MAX: Final = 1.0
"""Time after which no revoked credential is accepted."""
RELOAD_SECONDS_MAX: Final = 10.0
ITERATIONS: Final = 4096
LOG_BYTES: Final = 1 << 30
REFUSAL: Final = "TLS is not changed"
PAIRS: Final = 8
"""Certificates of the node, used in turn."""
REVOKED_EVERY: Final = 10
"""One rotation in so many also rotates authorities, and gives the node a pair that does not match."""


class Rotations(NamedTuple):
    """Result: rotations, connections and requests of valid clients, and the seconds in which revoked credentials
    were still accepted."""

    rotations: int
    connections: int
    requests: int
    revoked_seconds: list[float]

    def __str__(self) -> str:
        longest = max(self.revoked_seconds, default=0.0)
        return (f"{self.rotations} rotations; {self.connections} connections and {self.requests} requests of valid "
                f"clients, 0 failed; {len(self.revoked_seconds)} revoked, out within {longest:.3f} s")


def rotate_certificates(node: RotatedNode, rotations: int, progress: Callable[[int], None]) -> Rotations:
    """Rotate the certificate of the node. Every tenth time an authority is added and removed, whose client must be out,
    and a key that does not match must change nothing."""
    own = node.with_certificate(node.client_file("own", node.authority))
    of_other = node.with_certificate(node.client_file("other", node.other_authority))
    pairs = [node.authority.issue(HOST, (HOST,), DAYS) for _ in range(PAIRS)]
    revoked = []
    with Load([Client(node.tls_port, own) for _ in range(CLIENTS)]) as load:
        for number in range(rotations):
            pair = pairs[number % PAIRS]
            if number % REVOKED_EVERY == 0:
                node.trust(node.authority, node.other_authority)
                node.reload()
                await_true(lambda: is_accepted(node.tls_port, of_other), "the second authority is trusted")
                _refuse(node, pair, pairs[(number + 1) % PAIRS].key)
                node.trust(node.authority)
                node.show(pair)
                node.reload()
                revoked.append(seconds_accepted(node.tls_port, of_other, REVOKED_SECONDS_MAX))
            else:
                node.show(pair)
                node.reload()
            await_true(lambda pair=pair: shown_certificate(node) == pair.certificate,  # type: ignore[misc]
                       "the new certificate is shown")
            progress(1)
    return Rotations(rotations, load.count("connections"), load.count("requests"), revoked)


def _refuse(node: RotatedNode, pair: Issued, key: str) -> None:
    """Give the node a certificate with another one's key, and wait until it has refused it."""
    refused = node.log(LOG_BYTES).count(REFUSAL)
    shown = shown_certificate(node)
    node.show(pair, key)
    node.reload()
    await_true(lambda: node.log(LOG_BYTES).count(REFUSAL) > refused, "the pair that does not match is refused")
    assert shown_certificate(node) == shown, "a pair that does not match is shown"


def rotate_passwords(node: RotatedNode, rotations: int, progress: Callable[[int], None]) -> Rotations:
    """Change the password of each client's user in turn. Its open connection continues, its next login has the new
    password, and the old one must be out."""
    users = [f"user{number}" for number in range(CLIENTS)]
    revoked = []
    with Cluster(node.address) as admin:
        for user in users:
            set_password(admin, user, user, [MECHANISM], ITERATIONS)
        clients = [Client(node.sasl_port, node.with_password(user, user)) for user in users]
        for client in clients:
            await_true(lambda client=client: is_accepted(node.sasl_port, client.security),  # type: ignore[misc]
                       "a new user can log in")
        with Load(clients) as load:
            for number in range(rotations):
                client = clients[number % CLIENTS]
                before = client.security
                after = node.with_password(before.username, secrets.token_hex(8))
                with client.between_connections():
                    set_password(admin, before.username, after.password, [MECHANISM], ITERATIONS)
                    revoked.append(seconds_accepted(node.sasl_port, before, REVOKED_SECONDS_MAX))
                    client.security = after
                progress(1)
    return Rotations(rotations, load.count("connections"), load.count("requests"), revoked)


def rotate_keys(node: RotatedNode, rotations: int, progress: Callable[[int], None]) -> Rotations:
    """Replace the key that tokens are signed with: the next one is added, clients show tokens of it, and the previous
    one is removed, whose token must be out."""
    key = SigningKey("key0", "ES256")
    node.sign_with(key)
    revoked = []
    client = Client(node.sasl_port, node.with_token(key))
    await_true(lambda: is_accepted(node.sasl_port, client.security), "the first token is accepted")
    with Load([client]) as load:
        for number in range(rotations):
            before, following = client.security, SigningKey(f"key{number + 1}", "ES256")
            node.sign_with(key, following)
            after = node.with_token(following)
            await_true(lambda after=after: is_accepted(node.sasl_port, after),  # type: ignore[misc]
                       "the next token is accepted")
            with client.between_connections():
                client.security = after
            node.sign_with(following)
            revoked.append(seconds_accepted(node.sasl_port, before, REVOKED_SECONDS_MAX))
            key = following
            progress(1)
    return Rotations(rotations, load.count("connections"), load.count("requests"), revoked)


SUBJECTS: Final[dict[str, Callable[[RotatedNode, int, Callable[[int], None]], Rotations]]] = {
    "certificates": rotate_certificates, "passwords": rotate_passwords, "keys": rotate_keys}


def rotate(subject: str, rotations: int, progress: Callable[[int], None]) -> Rotations:
    """Rotate one of `SUBJECTS` of a new node. `progress` is called with the rotations since its last call."""
    with tempfile.TemporaryDirectory(prefix="kraft-rotations-") as directory:
        certificates = Path(directory, "certificates")
        certificates.mkdir()
        node = RotatedNode(Path(directory, "data"), certificates)
        node.start()
        try:
            node.create_topic()
            return SUBJECTS[subject](node, rotations, progress)
        finally:
            node.stop()


def is_accepted(port: int, security: Security) -> bool:
    """Return whether a client can connect."""
    try:
        Connection(HOST, port, security=security).close()
    except (KraftError, OSError):
        return False
    return True


def shown_certificate(node: RotatedNode) -> str:
    """Return the certificate that the node shows, as PEM."""
    context = ssl.create_default_context(cafile=str(node.certificates / CA))
    with (socket.create_connection((HOST, node.tls_port)) as plain,
          context.wrap_socket(plain, server_hostname=HOST) as connection):
        found = connection.getpeercert(binary_form=True)
    assert found is not None
    return ssl.DER_cert_to_PEM_cert(found)


def await_true(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds. Raises AssertionError when it takes too long."""
    until = time.monotonic() + RELOAD_SECONDS_MAX
    while not condition():
        assert time.monotonic() < until, f"not within {RELOAD_SECONDS_MAX:g} s: {what}"
