"""Reasons of decisions: the decision is that of the authorizer, and the entry that is named decides it."""

from hypothesis import given
from hypothesis import strategies as st

from kraft.config.authorizer_settings import AuthorizerSettings
from kraft.security.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from kraft.security.explanation import explain
from kraft.security.principal import Principal
from tests.oracle import acls as oracle
from tests.security.test_acl_table import entries, requests

TOPIC = ResourceType.TOPIC


@given(st.lists(entries, max_size=15), requests, st.booleans())
def test_the_decision_is_the_authorizers(acls, wanted, everyone):
    user, host, operation, kind, name = wanted
    found = explain(AuthorizerSettings(frozenset(), everyone), acls, Principal(*user.split(":")), host, operation, kind,
                    name)
    assert found.is_allowed == oracle.allows(acls, user, host, operation, kind, name, everyone=everyone)
    if found.acl is not None:
        assert found.acl in acls
        assert (found.acl.permission_type == PermissionType.ALLOW) == found.is_allowed
        assert oracle.selects(found.acl, kind, name)
        assert oracle.is_for(found.acl, user, host)


def test_rules_that_need_no_entry():
    denial = Acl(TOPIC, PatternType.LITERAL, "*", "User:*", "*", Operation.ALL, PermissionType.DENY)
    settings = AuthorizerSettings(frozenset({"User:root"}), allow_everyone=True)
    found = explain(settings, [denial], Principal.user("root"), "h", Operation.READ, TOPIC, "t")
    assert (found.is_allowed, found.reason, found.acl) == (True, "User:root is a super user", None)
    found = explain(settings, [], Principal.user("a"), "h", Operation.READ, TOPIC, "t")
    assert found.is_allowed
    assert "allow.everyone.if.no.acl.found" in found.reason
