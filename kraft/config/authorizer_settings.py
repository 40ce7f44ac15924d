"""Settings of the authorizer: its class, the users that may do everything, and what applies without an entry."""

from collections.abc import Mapping
from typing import Final

from kraft.config.errors import InvalidConfigError
from kraft.config.setting import Value
from kraft.structs import immutable

CLASS: Final = "authorizer.class.name"
SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The only class with an effect: its rules are built in."""


@immutable
class AuthorizerSettings:
    """`super_users`: principals, as KIND:NAME. `allow_everyone`: a resource without any entry is open to everyone."""

    super_users: frozenset[str]
    allow_everyone: bool


def authorizer_settings(values: Mapping[str, Value]) -> AuthorizerSettings | None:
    """Return the authorizer's settings among those of a node; None where the node has no authorizer. Raises
    `InvalidConfigError`."""
    name = values.get(CLASS) or ""
    super_users = parse_super_users(str(values.get(SUPER_USERS) or ""))
    if not name:
        return None
    if name != STANDARD_AUTHORIZER:
        raise InvalidConfigError(f"{CLASS}: {name!r} is not supported: Java classes cannot be loaded here; give "
                                 f"{STANDARD_AUTHORIZER}, whose rules are built in, or nothing")
    return AuthorizerSettings(super_users, bool(values.get(ALLOW_EVERYONE)))


def settings_without_authorizer(values: Mapping[str, Value]) -> dict[str, str]:
    """Return the settings that have no effect because the node has no authorizer, each with the reason."""
    if values.get(CLASS):
        return {}
    return {key: f"{key}: there is no authorizer ({CLASS}), so every client may do everything"
            for key in (SUPER_USERS, ALLOW_EVERYONE) if values.get(key)}


def parse_super_users(text: str) -> frozenset[str]:
    """Return the principals of a list with `;` between them. Raises `InvalidConfigError`."""
    names = [each.strip() for each in text.split(";")]
    for each in names:
        kind, colon, name = each.partition(":")
        if each and not (kind and colon and name):
            raise InvalidConfigError(f"{SUPER_USERS}: {each!r} is not KIND:NAME, such as User:admin; write ; between "
                                     "principals")
    return frozenset(filter(None, names))
