"""The index of entries, compared with a reader of all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.security.acl_patterns import host_name
from kraft.security.acl_table import AclTable
from kraft.security.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from tests.oracle import acls as oracle

NAMES = ("*", "a", "ab", "abc", "abd", "b", "ba", "hardcode", "hard", "h")
HOSTS = ("10.0.0.1", "10.0.1.1", "::1", "fe80::1")
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice")
TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
OPERATIONS = (Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS,
              Operation.ALTER_CONFIGS)

EMPTY_TABLE = AclTable(tracks_patterns=True)

entries = st.builds(
    Acl, st.sampled_from(TYPES), st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)), st.sampled_from(NAMES),
    st.sampled_from(PRINCIPALS), st.sampled_from(("*", *HOSTS, "10.0.0.0/24", "0:0:0:0:0:0:0:1", "fe80::/16")),
    st.sampled_from(OPERATIONS), st.sampled_from((PermissionType.ALLOW, PermissionType.DENY)))
requests = st.tuples(st.sampled_from(("User:alice", "Group:alice", "User:carol")), st.sampled_from(HOSTS),
                     st.sampled_from(OPERATIONS[1:]), st.sampled_from(TYPES), st.sampled_from((*NAMES, "abcd", "c")))


@given(st.lists(entries, max_size=25), st.lists(requests, min_size=1, max_size=20), st.data())
def test_decisions_are_those_of_a_reader_of_all_entries(acls, wanted, data):
    table = EMPTY_TABLE.changed((), acls)
    left = data.draw(st.lists(st.sampled_from(acls), unique=True)) if acls else []
    for removed in ((), left):
        table = table.changed(removed, ())
        for each in removed:
            acls.remove(each)
        assert table.count == len(acls)
        for user, host, operation, kind, name in wanted:
            allowed, denied = table.rights(user, host_name(host), kind, name)
            assert bool((allowed & ~denied) >> operation & 1) == oracle.allows(acls, user, host, operation, kind, name)
            assert table.selects(kind, name) == any(oracle.selects(each, kind, name) for each in acls)
            expected = oracle.allows_any_name(acls, user, host, operation, kind)
            found = table.allows_any_name(user, host_name(host), operation, kind)
            assert (found or bool((_rights(table, user, host, kind)) >> operation & 1)) == expected


def _rights(table, user, host, kind):
    allowed, denied = table.rights(user, host_name(host), kind, "hardcode")
    return allowed & ~denied


@given(st.lists(entries, max_size=25), entries)
def test_a_table_does_not_change(acls, other):
    table = EMPTY_TABLE.changed((), acls)
    seen = _everything(table)
    more = table.changed((), [other])
    assert _everything(table) == seen
    less = more.changed([other], ())
    assert _everything(less) == seen


@given(st.lists(entries, max_size=25), st.data())
def test_a_table_after_removals_is_as_one_that_never_had_them(acls, data):
    """Also in what its nodes know about those below them: else searches take longer and longer."""
    removed = data.draw(st.lists(st.sampled_from(acls), unique=True)) if acls else []
    left = list(acls)
    for each in removed:
        left.remove(each)
    found, expected = map(_nodes, (
        EMPTY_TABLE.changed((), acls).changed(removed, ()), EMPTY_TABLE.changed((), left)))
    assert found == expected


def _nodes(table):
    def of(node):
        return (node.below, node.literal is not None, node.prefixed is not None,
                {label: of(child) for label, child in node.edges.values()})

    return {(user, kind): of(resources.by_name) for user in PRINCIPALS
            for kind, resources in table.of_principal(user).items()}


def _everything(table):
    return {(user, kind, name): table.rights(user, "10.0.0.1", kind, name)
            for user in PRINCIPALS for kind in TYPES for name in NAMES}


@given(st.lists(entries, max_size=25))
def test_a_table_without_entries_has_no_nodes_left(acls):
    table = EMPTY_TABLE.changed((), acls).changed(acls, ())
    assert table.count == 0
    assert not table.patterns
    assert all(not table.of_principal(each) for each in PRINCIPALS)


def test_entries_of_a_principal_stay_the_same_object_when_others_change():
    one = Acl(ResourceType.TOPIC, PatternType.LITERAL, "a", "User:alice", "*", Operation.READ, PermissionType.ALLOW)
    table = EMPTY_TABLE.changed((), [one])
    other = table.changed((), [one._replace(principal="User:bob")])
    assert other.of_principal("User:alice") is table.of_principal("User:alice")


@pytest.mark.parametrize("operation", [0, 1, 16, 63, -1])
def test_an_operation_of_a_later_release_gives_nothing(operation):
    acl = Acl(ResourceType.TOPIC, PatternType.LITERAL, "a", "User:alice", "*", operation, PermissionType.ALLOW)
    table = EMPTY_TABLE.changed((), [acl])
    assert table.rights("User:alice", "10.0.0.1", ResourceType.TOPIC, "a").allowed == 0
    assert table.changed([acl], ()).count == 0
