"""The exchange on one connection: its order, its failures, the sessions."""

from dataclasses import replace

import pytest

from kraft.config.sasl_settings import SaslSettings
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kraft.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kraft.security.principal import Principal
from kraft.security.sasl.exchange import Answer, Exchange, SaslListener
from kraft.security.sasl.scram import ScramCredential, credential, salted_password, scram_client

MECHANISMS = ("PLAIN", "SCRAM-SHA-512")
SETTINGS = SaslSettings("CLIENTS", MECHANISMS, {"alice": "secret", "bob": "secret"},
                        {"PLAIN": 0, "SCRAM-SHA-512": 5_000}, 1 << 19)
KEPT = credential("SCRAM-SHA-512", salted_password("sha512", "secret", b"salt", 4_096), b"salt", 4_096)
ALICE = b"\0alice\0secret"


def find(mechanism: int, name: str) -> ScramCredential | None:
    return KEPT if (mechanism, name) == (2, "alice") else None


def exchange(reauth_ms: int = 0) -> Exchange:
    settings = replace(SETTINGS, reauth_ms={"PLAIN": reauth_ms, "SCRAM-SHA-512": 5_000})
    return Exchange(SaslListener(settings, find, lambda: "own", b"secret"))


def response(answer: Answer) -> SaslAuthenticateResponse:
    assert isinstance(answer.message, SaslAuthenticateResponse)
    return answer.message


def code(answer: Answer) -> int:
    assert isinstance(answer.message, SaslAuthenticateResponse | SaslHandshakeResponse)
    return answer.message.error_code


def test_a_user_logs_in_by_plain() -> None:
    run = exchange()
    answer = run.handshake(1, "PLAIN")
    assert isinstance(answer.message, SaslHandshakeResponse)
    assert (answer.message.mechanisms, answer.failure) == ([*MECHANISMS], None)
    assert not run.is_open
    assert response(run.authenticate(1, ALICE, 7)).session_lifetime_ms == 0
    assert (run.is_open, run.principal) == (True, Principal.user("alice"))
    assert not run.may_begin_again(1 << 40)


def test_a_user_logs_in_by_scram_with_a_session() -> None:
    run, client = exchange(), scram_client("SCRAM-SHA-512", "alice", "secret", "x")
    run.handshake(1, "SCRAM-SHA-512")
    first = response(run.authenticate(2, next(client), 0))
    assert (first.session_lifetime_ms, run.is_open) == (0, False)
    assert response(run.authenticate(2, client.send(first.auth_bytes), 100)).session_lifetime_ms == 5_000
    assert run.is_open
    assert [run.may_begin_again(now_ms) for now_ms in (100, 1_099, 1_100)] == [False, False, True]


def test_frames_without_a_header_follow_the_first_version_of_the_handshake() -> None:
    run = exchange()
    run.handshake(0, "PLAIN")
    assert run.is_raw
    assert run.raw(ALICE, 0) == Answer(token=b"")
    assert run.is_open


def test_a_wrong_password_and_an_unknown_user_get_the_same_answer() -> None:
    answers = []
    for message in (b"\0alice\0wrong", b"\0carol\0secret", b"", b"\xff"):
        run = exchange()
        run.handshake(1, "PLAIN")
        answer = run.authenticate(1, message, 0)
        assert answer.failure
        assert not run.is_open
        answers.append((code(answer), response(answer).error_message))
    assert set(answers) == {(ErrorCode.SASL_AUTHENTICATION_FAILED,
                             "Authentication failed: PLAIN does not accept these credentials")}


def test_a_failure_of_a_token_without_a_header_has_no_answer() -> None:
    run = exchange()
    run.handshake(0, "PLAIN")
    answer = run.raw(b"\0alice\0wrong", 0)
    assert (answer.message, answer.token) == (None, None)
    assert answer.failure


@pytest.mark.parametrize("mechanism", ["GSSAPI", "", "plain", "SCRAM-SHA-256", "x" * 30_000])
def test_a_mechanism_that_is_not_enabled(mechanism: str) -> None:
    answer = exchange().handshake(1, mechanism)
    assert isinstance(answer.message, SaslHandshakeResponse)
    assert code(answer) == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.message.mechanisms == [*MECHANISMS]
    assert answer.failure


def test_requests_out_of_order_are_failures() -> None:
    assert exchange().authenticate(1, ALICE, 0) == Answer(failure="SaslAuthenticate came before SaslHandshake")
    assert exchange().raw(ALICE, 0).failure
    run = exchange()
    run.handshake(1, "PLAIN")
    twice = run.handshake(1, "PLAIN")
    assert code(twice) == ErrorCode.ILLEGAL_SASL_STATE
    assert twice.failure


def open_session() -> Exchange:
    run = exchange(reauth_ms=5_000)
    run.handshake(1, "PLAIN")
    assert response(run.authenticate(1, ALICE, 0)).session_lifetime_ms == 5_000
    return run


def test_a_session_is_renewed_by_the_same_user() -> None:
    run = open_session()
    run.handshake(1, "PLAIN")
    assert not run.is_open
    assert run.authenticate(1, ALICE, 2_000).failure is None
    assert run.is_open
    assert run.may_begin_again(2_500) is False


@pytest.mark.parametrize(("mechanism", "message", "why"), [
    ("PLAIN", b"\0bob\0secret", "the user changed from User:alice to User:bob"),
    ("SCRAM-SHA-512", b"n,,n=alice,r=x", "the mechanism changed from PLAIN"),
    ("PLAIN", b"\0alice\0wrong", "the user 'alice' is unknown, or has another password"),
])
def test_a_session_is_not_renewed_by_another_identity(mechanism: str, message: bytes, why: str) -> None:
    run = open_session()
    run.handshake(1, mechanism)
    answer = run.authenticate(1, message, 2_000)
    assert answer.failure == why
    assert code(answer) == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not run.is_open
