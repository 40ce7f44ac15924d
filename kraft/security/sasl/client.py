"""Client's side of the SASL mechanisms: PLAIN (RFC 4616), and SCRAM with SHA-256 or SHA-512 (RFC 5802)."""

from collections.abc import Generator

from kraft.security.sasl.scram import scram_client


def sasl_client(mechanism: str, username: str, password: str, nonce: str) -> Generator[bytes, bytes, None]:
    """Run the mechanism: yield each message, and get its answer. Raise `ScramError` for a server that cannot be
    trusted. PLAIN needs no `nonce`."""
    if mechanism == "PLAIN":
        yield f"\0{username}\0{password}".encode()
    else:
        yield from scram_client(mechanism, username, password, nonce)
