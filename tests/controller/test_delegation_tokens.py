"""Decisions about delegation tokens: lives, owners, renewers, and every refusal."""

from typing import Any

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from kraft.protocol.messages.delegation_token_record import DelegationTokenRecord
from kraft.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kraft.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kraft.security.principal import Client, Principal, TokenUser
from kraft.security.tokens import RENEWERS_MAX, token_hmac
from tests.controller.world import LATEST_VERSION, World

SECRET = b"key"
LIFE_MS, RENEWAL_MS, SWEEP_MS = 100_000, 10_000, 5_000
ALICE, BOB, CAROL = map(Principal.user, ("alice", "bob", "carol"))


def world(**changes: Any) -> World:
    settings = {"token_secret": SECRET, "token_life_max_ms": LIFE_MS, "token_renewal_ms": RENEWAL_MS,
                "token_sweep_ms": SWEEP_MS}
    return World(**settings | changes)


def request(world: World, wanted: Message, principal: Principal = ALICE) -> Any:
    answers: list[Message] = []
    world.controller.submit(wanted, LATEST_VERSION, world.now_ms, answers.append, Client("c", principal))
    world.commit()
    answer, = answers
    return answer


def sweep(world: World, after_ms: int) -> None:
    world.now_ms += after_ms
    world.controller.tick(world.now_ms)
    world.commit()


def create(world: World, principal: Principal = ALICE, *renewers: str, **fields: Any) -> Any:
    return request(world, CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type="User", principal_name=each) for each in renewers], **fields),
        principal)


def renew(world: World, secret: bytes, principal: Principal = ALICE, period_ms: int = -1) -> Any:
    return request(world, RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms), principal)


def expire(world: World, secret: bytes, principal: Principal = ALICE, period_ms: int = -1) -> Any:
    return request(world, ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms), principal)


def tokens(world: World) -> dict[str, DelegationTokenRecord]:
    return dict(world.image.delegation_tokens)


def test_a_token_for_the_client_itself() -> None:
    here = world()
    made = create(here, ALICE, "bob")
    assert made.error_code == ErrorCode.NONE
    assert (made.principal_name, made.token_requester_principal_name) == ("alice", "alice")
    assert (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms) == (
        here.now_ms, here.now_ms + RENEWAL_MS, here.now_ms + LIFE_MS)
    assert made.hmac == token_hmac(SECRET, made.token_id)
    kept = tokens(here)[made.token_id]
    assert (kept.owner, kept.requester, kept.renewers) == ("User:alice", "User:alice", ["User:bob"])
    assert SECRET not in repr(kept).encode()
    assert create(here).token_id != made.token_id


def test_a_token_for_another_user() -> None:
    here = world()
    made = create(here, ALICE, owner_principal_type="User", owner_principal_name="bob")
    assert (made.principal_name, made.token_requester_principal_name) == ("bob", "alice")
    kept = tokens(here)[made.token_id]
    assert (kept.owner, kept.requester) == ("User:bob", "User:alice")
    assert renew(here, made.hmac, ALICE).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(here, made.hmac, BOB).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("wanted_ms", "life_ms"), [(-1, LIFE_MS), (0, LIFE_MS), (7, 7), (1 << 62, LIFE_MS)])
def test_a_client_may_choose_a_shorter_life(wanted_ms: int, life_ms: int) -> None:
    here = world()
    made = create(here, max_lifetime_ms=wanted_ms)
    assert made.max_timestamp_ms == here.now_ms + life_ms
    assert made.expiry_timestamp_ms == here.now_ms + min(life_ms, RENEWAL_MS)


def test_a_life_without_end_is_the_longest_time() -> None:
    longest = (1 << 63) - 1
    here = world(token_life_max_ms=longest, token_renewal_ms=longest)
    made = create(here)
    assert made.max_timestamp_ms == made.expiry_timestamp_ms == longest
    assert expire(here, made.hmac, period_ms=longest).expiry_timestamp_ms == longest


def test_owner_and_renewers_renew_a_token() -> None:
    here = world()
    made = create(here, ALICE, "bob")
    here.now_ms += 4_000
    assert renew(here, made.hmac, BOB).expiry_timestamp_ms == here.now_ms + RENEWAL_MS
    assert renew(here, made.hmac, ALICE, 5).expiry_timestamp_ms == here.now_ms + 5
    assert tokens(here)[made.token_id].expiration_timestamp == here.now_ms + 5
    assert renew(here, made.hmac, CAROL).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(here, b"other").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    here.now_ms += 6
    assert renew(here, made.hmac).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_no_renewal_goes_beyond_the_longest_life() -> None:
    here = world(token_life_max_ms=12_000)
    made = create(here)
    here.now_ms += 8_000
    assert renew(here, made.hmac).expiry_timestamp_ms == made.max_timestamp_ms


def test_a_token_is_expired_at_once_or_later() -> None:
    here = world()
    made = create(here, ALICE, "bob")
    assert expire(here, made.hmac, CAROL).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert expire(here, made.hmac, BOB, 1_000).expiry_timestamp_ms == here.now_ms + 1_000
    here.now_ms += 1_001
    assert expire(here, made.hmac, BOB, 1_000).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    removed = expire(here, made.hmac, BOB)
    assert (removed.error_code, removed.expiry_timestamp_ms) == (ErrorCode.NONE, here.now_ms)
    assert tokens(here) == {}
    assert expire(here, made.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_does_not_manage_tokens() -> None:
    here = world()
    made = create(here)
    by_token = TokenUser.user("alice")
    for answer in (create(here, by_token), renew(here, made.hmac, by_token), expire(here, made.hmac, by_token)):
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert list(tokens(here)) == [made.token_id]


@pytest.mark.parametrize(("kind", "count", "code"), [
    ("Group", 1, ErrorCode.INVALID_PRINCIPAL_TYPE), ("User", RENEWERS_MAX + 1, ErrorCode.POLICY_VIOLATION)])
def test_renewers_that_are_refused(kind: str, count: int, code: ErrorCode) -> None:
    here = world()
    wanted = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type=kind, principal_name="x") for _ in range(count)])
    assert request(here, wanted).error_code == code
    assert tokens(here) == {}


def test_without_a_secret_there_are_no_tokens() -> None:
    here = world(token_secret=b"")
    for answer in (create(here), renew(here, b"x"), expire(here, b"x")):
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_expired_tokens_are_removed() -> None:
    here = world()
    made = [create(here, max_lifetime_ms=life_ms).token_id for life_ms in (1_000, 1_000, 50_000)]
    sweep(here, SWEEP_MS - 1)
    assert list(tokens(here)) == made
    sweep(here, 1)
    assert list(tokens(here)) == made[2:]
    sweep(here, SWEEP_MS)
    assert list(tokens(here)) == made[2:]
    sweep(here, SWEEP_MS)
    assert tokens(here) == {}, "it was not renewed"
