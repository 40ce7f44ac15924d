"""Settings of a gateway: its limits, and how it logs in to the cluster."""

from dataclasses import dataclass, field
from typing import Final, Literal

from kraft.client.security import PLAINTEXT, Security

Login = Literal["shared", "user"]
"""`shared`: one configured client for all. `user`: the credentials of each request are passed on to SASL."""

PORT_DEFAULT: Final = 8088
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a gateway. Memory is at most about `feed_bytes` for each of `feeds`, `history_bytes` for each user,
    `send_bytes` for each subscriber, and `bodies_bytes`."""

    body_bytes: int = 8 * MIB
    """Largest body of a request."""
    bodies_bytes: int = 256 * MIB
    """Bodies of all requests in progress together."""
    records: int = 10_000
    """Most records of one request."""
    subscribers: int = 10_000
    """Subscribers at a time; further ones are refused."""
    partitions: int = 256
    """Partitions of one subscription."""
    feeds: int = 1_024
    """Partitions that are followed at a time for all users, each with the newest records in memory."""
    feed_bytes: int = 4 * MIB
    history_bytes: int = 32 * MIB
    """Older records that were read for a subscriber and may be of use to the next."""
    history_readers: int = 4
    """Readers of older records, each in a thread."""
    send_bytes: int = 64 << 10
    """Bytes of events that a subscriber gets at a time."""
    slow_seconds: float = 20.0
    """Time after which a subscriber that does not receive is cut."""
    heartbeat_seconds: float = 15.0
    connections: int = 12_000
    """Open connections at a time, of subscribers and all others; fewer where the system allows fewer descriptors."""
    connections_per_address: int = 256
    requests_per_second: float = 200.0
    """Requests of one address; twice as many at once."""
    users: int = 64
    """Users of SASL with connections to the cluster at a time."""
    idempotency_keys: int = 100_000
    """Records whose answers are kept for repeated requests."""
    idempotency_seconds: float = 600.0
    request_seconds: float = 30.0
    """Time for one answer of the cluster."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a gateway. `tokens_file`: bearer tokens of which a request needs one, with the login `shared`."""

    bootstrap: str
    security: Security = PLAINTEXT
    login: Login = "shared"
    tokens_file: str = ""
    origins: tuple[str, ...] = ()
    """Origins whose pages may use the gateway from a browser; `*` means all."""
    limits: Limits = field(default_factory=Limits)
