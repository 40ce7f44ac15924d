"""DescribeUserScramCredentials (key 50), version 0: the users that have SCRAM credentials, without their secrets."""

from collections import Counter

from kraft.broker.api import Answer, RequestContext, Steps, serves
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from kraft.protocol.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@serves("DescribeUserScramCredentials")
def describe_user_scram_credentials(broker: Broker, request: DescribeUserScramCredentialsRequest,
                                    _context: RequestContext, answer: Answer) -> Steps:
    """Answer with all users when the request names none."""
    known: dict[str, list[CredentialInfo]] = {}
    scram = broker.image.scram
    for mechanism, name in sorted(scram):
        iterations = scram[mechanism, name].iterations
        known.setdefault(name, []).append(CredentialInfo(mechanism=mechanism, iterations=iterations))
        yield
    counts = Counter([each.name for each in request.users or ()] or list(known))
    results = []
    for name, count in counts.items():
        results.append(_result(name, known.get(name), twice=count > 1))
        yield
    answer(DescribeUserScramCredentialsResponse(error_message=None, results=results))


def _result(name: str, infos: list[CredentialInfo] | None, *, twice: bool) -> DescribeUserScramCredentialsResult:
    if twice:
        return DescribeUserScramCredentialsResult(user=name, error_code=ErrorCode.DUPLICATE_RESOURCE,
                                                  error_message=f"user {name!r} is asked for more than once")
    if infos is None:
        return DescribeUserScramCredentialsResult(user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND,
                                                  error_message=f"user {name!r} has no SCRAM credentials")
    return DescribeUserScramCredentialsResult(user=name, error_message=None, credential_infos=infos)
