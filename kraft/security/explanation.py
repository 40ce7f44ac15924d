"""Reason of a decision: the entry, or the rule, by which a client may do something or may not."""

from collections.abc import Iterable
from typing import NamedTuple

from kraft.config.authorizer_settings import AuthorizerSettings
from kraft.security.acl_patterns import Rights, host_name, pattern_of
from kraft.security.acls import EVERY_USER, Acl, Operation, ResourceType, applies_to
from kraft.security.principal import Principal


class Explanation(NamedTuple):
    """A decision with its reason. `acl` is the entry that decides; None where a rule does."""

    is_allowed: bool
    reason: str
    acl: Acl | None = None


def explain(settings: AuthorizerSettings, acls: Iterable[Acl], principal: Principal, host: str, operation: Operation,
            resource: ResourceType, name: str) -> Explanation:
    """Return the decision by all of these entries, with its reason. Entries about other things are skipped."""
    if str(principal) in settings.super_users:
        return Explanation(True, f"{principal} is a super user")
    selecting = [each for each in acls if each.resource_type == resource and applies_to(each, name)]
    own = [(each, _rights(each, host)) for each in selecting if each.principal in (str(principal), EVERY_USER)]
    for each, rights in own:
        if rights.denied >> operation & 1:
            return Explanation(False, f"an entry denies it: {each}", each)
    for each, rights in own:
        if rights.allowed >> operation & 1:
            return Explanation(True, f"an entry allows it: {each}", each)
    if selecting:
        return Explanation(False, "no entry allows it")
    if settings.allow_everyone:
        return Explanation(True, "no entry selects the resource, and allow.everyone.if.no.acl.found is set")
    return Explanation(False, "no entry selects the resource")


def _rights(acl: Acl, host: str) -> Rights:
    pattern = pattern_of((acl,))
    assert pattern is not None
    return pattern.rules.rights(host_name(host))
