"""SCRAM on both sides, against the vectors of RFC 7677, and with hostile messages."""

import base64
from collections.abc import Callable

import pytest

from kraft.security.sasl.mechanism import RefusedError
from kraft.security.sasl.scram import HASHES, ScramCredential, ScramServer, credential, salted_password, scram_client

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, OWN_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"n,,n=user,r={CLIENT_NONCE}"
FINAL = f"c=biws,r={CLIENT_NONCE}{OWN_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


def kept(mechanism: str = "SCRAM-SHA-256", password: str = "pencil", iterations: int = 4_096) -> ScramCredential:
    return credential(mechanism, salted_password(HASHES[mechanism], password, SALT, iterations), SALT, iterations)


def server(users: dict[str, ScramCredential], mechanism: str = "SCRAM-SHA-256") -> ScramServer:
    return ScramServer(mechanism, users.get, OWN_NONCE, b"secret of the process")


def test_the_exchange_of_the_specification() -> None:
    run = server({"user": kept()})
    assert run.step(FIRST.encode()) == (
        f"r={CLIENT_NONCE}{OWN_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    assert not run.is_complete
    assert run.step(FINAL.encode()) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert run.is_complete
    assert run.username == "user"


@pytest.mark.parametrize("mechanism", sorted(HASHES))
@pytest.mark.parametrize("name", ["alice", "a,b=c", "=2C", "é"])
def test_both_sides_agree(mechanism: str, name: str) -> None:
    run, client = server({name: kept(mechanism)}, mechanism), scram_client(mechanism, name, "pencil", "x")
    final = client.send(run.step(next(client)))
    with pytest.raises(StopIteration):
        client.send(run.step(final))
    assert run.username == name


@pytest.mark.parametrize("users", [{"user": kept(password="other")}, {}, {"other": kept()}])
def test_a_wrong_password_and_an_unknown_user_look_the_same(users: dict[str, ScramCredential]) -> None:
    """Both exchanges have two steps, and the salt of an unknown user stays the same."""
    run, client = server(users), scram_client("SCRAM-SHA-256", "user", "pencil", "x")
    answer = run.step(next(client))
    assert answer == server(users).step(FIRST.replace(CLIENT_NONCE, "x").encode())
    assert answer.split(b",")[2] == b"i=4096"
    with pytest.raises(RefusedError, match="another password, or no"):
        run.step(client.send(answer))
    assert not run.is_complete


def forged(users: dict[str, ScramCredential], change: Callable[[bytes], bytes]) -> None:
    run, client = server(users), scram_client("SCRAM-SHA-256", "user", "pencil", "x")
    run.step(change(client.send(run.step(next(client)))))


@pytest.mark.parametrize("change", [
    lambda final: final.replace(b"c=biws", b"c=eSws"), lambda final: final.replace(b"r=x", b"r=y"),
    lambda final: final[:-8], lambda final: final[:-4] + b"====", lambda final: final + b",",
    lambda _: b"", lambda _: b"\xff",
    lambda final: final.partition(b",p=")[0] + b",p=" + base64.b64encode(bytes(32)),
    lambda final: final.partition(b",p=")[0] + b",p=" + base64.b64encode(bytes(64)),
    lambda final: final.partition(b",p=")[0] + b",p=AA==",
])
def test_final_messages_that_prove_nothing(change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(RefusedError):
        forged({"user": kept()}, change)


def test_the_salt_of_an_unknown_user_depends_on_its_name_and_on_the_secret_only() -> None:
    def salt(name: str, nonce: str = OWN_NONCE, secret: bytes = b"1") -> bytes:
        run = ScramServer("SCRAM-SHA-256", lambda _name: None, nonce, secret)
        return run.step(f"n,,n={name},r=x".encode()).split(b",")[1]

    assert salt("a") == salt("a", nonce="another")
    assert len({salt("a"), salt("b"), salt("a", secret=b"2")}) == 3


@pytest.mark.parametrize("first", [
    b"", b"n,,", b"n,,n=user", b"n,,r=x", b"n,,n=,r=x", b"n,,n=us=er,r=x", b"n,,n=user,r=", b"n,,n=user,r=\x7f",
    b"p=tls-unique,,n=user,r=x", b"n,a=other,n=user,r=x", b"n,,m=ext,n=user,r=x", b"n,,n=user,r=x,tokenauth=maybe",
    b"x,,n=user,r=x", b"\xff\xfe", b"n" * 500_000,
])
def test_first_messages_that_are_refused(first: bytes) -> None:
    with pytest.raises(RefusedError):
        server({"user": kept()}).step(first)


@pytest.mark.parametrize("first", [b"y,,n=user,r=x", b"n,a=user,n=user,r=x"])
def test_first_messages_that_are_allowed(first: bytes) -> None:
    assert server({"user": kept()}).step(first).startswith(b"r=x")


def test_secrets_are_not_shown() -> None:
    assert repr(kept()) == "ScramCredential(iterations=4096)"
