"""Delegation tokens (KIP-48): created, renewed, expired and described."""

import base64
import binascii
from collections.abc import Iterable
from typing import Final, NamedTuple

from kraft.client.cluster import Cluster
from kraft.client.refusals import check
from kraft.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from kraft.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kraft.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kraft.protocol.messages.describe_delegation_token_response import DescribeDelegationTokenResponse
from kraft.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kraft.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kraft.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kraft.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from kraft.security.principal import Principal
from kraft_native.base.errors import InvalidArgumentError

AS_LONG_AS_ALLOWED: Final = -1
AT_ONCE: Final = -1


class Token(NamedTuple):
    """A token. `secret` is its password for SCRAM, in base64. Times are milliseconds since 1970."""

    token_id: str
    secret: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int

    def __repr__(self) -> str:
        return f"Token({self.token_id!r} of {self.owner})"


def create_token(cluster: Cluster, *, owner: Principal | None = None, renewers: Iterable[Principal] = (),
                 life_ms: int = AS_LONG_AS_ALLOWED) -> Token:
    """Create a token; `owner` None: of this client. `RefusedError` states a refusal."""
    renewers = tuple(renewers)
    answer = cluster.send(CreateDelegationTokenRequest(
        owner_principal_type=owner.kind if owner else None, owner_principal_name=owner.name if owner else None,
        renewers=[CreatableRenewers(principal_type=each.kind, principal_name=each.name) for each in renewers],
        max_lifetime_ms=life_ms), CreateDelegationTokenResponse)
    check("token", answer.error_code)
    made = Principal(answer.principal_type, answer.principal_name)
    requester = Principal(answer.token_requester_principal_type, answer.token_requester_principal_name)
    return Token(answer.token_id, base64.b64encode(answer.hmac).decode(), str(made),
                 str(requester) if requester.name else str(made), tuple(map(str, renewers)),
                 answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms)


def renew_token(cluster: Cluster, secret: str, period_ms: int = AS_LONG_AS_ALLOWED) -> int:
    """Renew a token; return the time at which it expires now. `RefusedError` states a refusal."""
    answer = cluster.send(RenewDelegationTokenRequest(hmac=_bytes(secret), renew_period_ms=period_ms),
                          RenewDelegationTokenResponse)
    check("token", answer.error_code)
    return answer.expiry_timestamp_ms


def expire_token(cluster: Cluster, secret: str, period_ms: int = AT_ONCE) -> int:
    """Let a token expire; return the time at which it does. `RefusedError` states a refusal."""
    answer = cluster.send(ExpireDelegationTokenRequest(hmac=_bytes(secret), expiry_time_period_ms=period_ms),
                          ExpireDelegationTokenResponse)
    check("token", answer.error_code)
    return answer.expiry_timestamp_ms


def tokens_of(cluster: Cluster, owners: Iterable[Principal] = ()) -> list[Token]:
    """Return the tokens that these users own or may renew; without users all that this client may see."""
    wanted = [DescribeDelegationTokenOwner(principal_type=each.kind, principal_name=each.name) for each in owners]
    answer = cluster.send(DescribeDelegationTokenRequest(owners=wanted or None), DescribeDelegationTokenResponse)
    check("tokens", answer.error_code)
    return [Token(
        each.token_id, base64.b64encode(each.hmac).decode(), f"{each.principal_type}:{each.principal_name}",
        f"{each.token_requester_principal_type}:{each.token_requester_principal_name}",
        tuple(f"{one.principal_type}:{one.principal_name}" for one in each.renewers), each.issue_timestamp,
        each.expiry_timestamp, each.max_timestamp) for each in answer.tokens]


def _bytes(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgumentError("the secret of a token is base64") from None
