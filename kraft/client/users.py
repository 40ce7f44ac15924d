"""Users with SCRAM credentials (KIP-554): listed, set and removed. Passwords are salted here and never sent."""

import secrets
from collections.abc import Iterable
from typing import Final, NamedTuple

from kraft.client.cluster import Cluster
from kraft.client.refusals import check
from kraft.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kraft.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from kraft.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from kraft.protocol.messages.describe_user_scram_credentials_response import DescribeUserScramCredentialsResponse
from kraft.security.sasl.scram import HASHES, IDS, ITERATIONS_MIN, salted_password

NAMES: Final = {number: name for name, number in IDS.items()}
SALT_BYTES: Final = 20


class StoredCredential(NamedTuple):
    """A credential, without its secrets."""

    user: str
    mechanism: str
    iterations: int


def credentials_of(cluster: Cluster, names: Iterable[str] = ()) -> list[StoredCredential]:
    """Return the credentials of these users; of all if none is named. `RefusedError` names a user without any."""
    wanted = [UserName(name=name) for name in names]
    answer = cluster.send(DescribeUserScramCredentialsRequest(users=wanted or None),
                          DescribeUserScramCredentialsResponse)
    check("users", answer.error_code, answer.error_message)
    found = []
    for result in answer.results:
        check(f"user {result.user}", result.error_code, result.error_message)
        found += [StoredCredential(result.user, NAMES.get(each.mechanism, str(each.mechanism)), each.iterations)
                  for each in result.credential_infos]
    return found


def set_password(cluster: Cluster, name: str, password: str, mechanisms: Iterable[str],
                 iterations: int = ITERATIONS_MIN) -> None:
    """Set a user's password for these mechanisms, with a new salt for each. `RefusedError` states a refusal."""
    upsertions = []
    for mechanism in mechanisms:
        salt = secrets.token_bytes(SALT_BYTES)
        upsertions.append(ScramCredentialUpsertion(
            name=name, mechanism=IDS[mechanism], iterations=iterations, salt=salt,
            salted_password=salted_password(HASHES[mechanism], password, salt, iterations)))
    for upsertion in upsertions:       # a request alters each user once
        _alter(cluster, AlterUserScramCredentialsRequest(upsertions=[upsertion]))


def remove_credentials(cluster: Cluster, name: str, mechanisms: Iterable[str]) -> None:
    """Remove a user's credentials for these mechanisms. `RefusedError` states a refusal."""
    for mechanism in mechanisms:
        _alter(cluster, AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name=name, mechanism=IDS[mechanism])]))


def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> None:
    answer = cluster.send(request, AlterUserScramCredentialsResponse)
    for result in answer.results:
        check(f"user {result.user}", result.error_code, result.error_message)
