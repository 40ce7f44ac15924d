"""Identities of clients."""

from kraft.security.principal import ANONYMOUS, Principal


def test_a_principal_is_written_as_its_kind_and_name() -> None:
    assert str(Principal("Group", "a:b")) == "Group:a:b"
    assert str(Principal.user("CN=alice,O=x")) == "User:CN=alice,O=x"
    assert str(ANONYMOUS) == "User:ANONYMOUS"


def test_principals_are_compared_by_kind_and_name() -> None:
    assert Principal.user("alice") == Principal("User", "alice") != Principal("Group", "alice")
