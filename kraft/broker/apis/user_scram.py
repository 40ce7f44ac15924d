"""DescribeUserScramCredentials (key 50), version 0: the users that have SCRAM credentials, without their secrets."""

from typing import Final

from kraft.broker.api import Answer, RequestContext, Steps, counted_steps, sorted_steps
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import bounded
from kraft.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from kraft.protocol.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

MECHANISMS: Final = (1, 2)
"""Kafka's ids of SCRAM-SHA-256 and SCRAM-SHA-512."""

NO_CREDENTIALS: Final = "the user has no SCRAM credentials"
"""One text for all users: an answer may hold a hundred thousand, each beside its user."""


def describe_user_scram_credentials(broker: Broker, request: DescribeUserScramCredentialsRequest,
                                    _context: RequestContext, answer: Answer) -> Steps:
    """Answer with all users when the request names none."""
    scram = broker.image.scram
    if request.users:
        counts = yield from counted_steps(each.name for each in request.users)
    else:
        everything = yield from sorted_steps(scram)
        counts = yield from counted_steps(name for _mechanism, name in everything)
    results = []
    for name, count in counts.items():
        infos = [CredentialInfo(mechanism=mechanism, iterations=scram[mechanism, name].iterations)
                 for mechanism in MECHANISMS if (mechanism, name) in scram]
        results.append(_result(name, infos, twice=bool(request.users) and count > 1))
        yield
    answer(DescribeUserScramCredentialsResponse(error_message=None, results=results))


def _result(name: str, infos: list[CredentialInfo], *, twice: bool) -> DescribeUserScramCredentialsResult:
    if twice:
        return DescribeUserScramCredentialsResult(user=name, error_code=ErrorCode.DUPLICATE_RESOURCE,
                                                  error_message=bounded(f"user {name!r} is named more than once"))
    if not infos:
        return DescribeUserScramCredentialsResult(user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND,
                                                  error_message=NO_CREDENTIALS)
    return DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=infos)
