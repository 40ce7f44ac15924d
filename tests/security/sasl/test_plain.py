"""PLAIN as a server."""

import pytest

from kraft.security.sasl.mechanism import RefusedError
from kraft.security.sasl.plain import PlainServer, PlainUsers

USERS = PlainUsers({"alice": "secret", "é": "ß,=;"})


@pytest.mark.parametrize(("message", "name"), [
    ("\0alice\0secret", "alice"), ("alice\0alice\0secret", "alice"), ("\0é\0ß,=;", "é")])
def test_a_user_with_its_password(message: str, name: str) -> None:
    run = PlainServer(USERS)
    assert run.step(message.encode()) == b""
    assert (run.username, run.is_complete) == (name, True)


@pytest.mark.parametrize("message", [
    b"", b"alice", b"\0alice", b"\0alice\0", b"\0\0secret", b"\0alice\0secret\0", b"\0alice\0Secret", b"\0bob\0secret",
    b"bob\0alice\0secret", b"\0\xff\0secret", b"\0" * 100_000])
def test_messages_that_are_refused(message: bytes) -> None:
    run = PlainServer(USERS)
    with pytest.raises(RefusedError):
        run.step(message)
    assert not run.is_complete


def test_an_unknown_user_is_no_user_without_a_password() -> None:
    assert not USERS.accepts("bob", "")
    assert not PlainUsers({}).accepts("", "")
