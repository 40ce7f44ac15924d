"""Settings of the authorizer."""

import pytest

from kraft.config.authorizer_settings import STANDARD_AUTHORIZER, authorizer_settings, parse_super_users
from kraft.config.errors import InvalidConfigError
from kraft.config.node_config import NodeConfig

CLASS = {"authorizer.class.name": STANDARD_AUTHORIZER}


def test_without_a_class_there_is_no_authorizer():
    for texts in ({}, {"authorizer.class.name": ""}):
        assert authorizer_settings(NodeConfig(texts).values) is None


def test_the_standard_authorizer():
    found = authorizer_settings(NodeConfig({
        **CLASS, "super.users": " User:admin ;User:CN=n1,O=x;;", "allow.everyone.if.no.acl.found": "TRUE"}).values)
    assert found.super_users == {"User:admin", "User:CN=n1,O=x"}
    assert found.allow_everyone
    plain = authorizer_settings(NodeConfig(CLASS).values)
    assert plain.super_users == frozenset()
    assert not plain.allow_everyone


@pytest.mark.parametrize("text", ["admin", "User:", ":admin", "User:a;b", "User:a,b;:"])
def test_a_super_user_that_is_no_principal_is_refused(text):
    with pytest.raises(InvalidConfigError, match=r"super\.users: .* is not KIND:NAME"):
        parse_super_users(text)
    with pytest.raises(InvalidConfigError, match=r"super\.users"):
        NodeConfig({**CLASS, "super.users": text})


def test_super_users_of_a_node_without_authorizer_are_named():
    config = NodeConfig({"super.users": "User:a", "allow.everyone.if.no.acl.found": "true"})
    assert "every client may do everything" in config.ignored["super.users"]
    assert sorted(config.ignored) == ["allow.everyone.if.no.acl.found", "super.users"]
    assert not NodeConfig({**CLASS, "super.users": "User:a"}).ignored
