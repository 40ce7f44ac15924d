"""The cache of decisions: what is kept, and when it is decided again."""

import gc

import pytest

from kraft_native.request.permissions import PermissionCache

READ, WRITE, CLUSTER_ACTION = 3, 4, 9
TOPIC, CLUSTER, TRANSACTIONAL_ID = 2, 4, 5


class Decider:
    """Allows what is in `rights`, and counts."""

    def __init__(self):
        self.rights = {}
        self.decided = []
        self.basis = {}

    def decide(self, principal, host, kind, name):
        self.decided.append((principal, host, kind, name))
        return sum(1 << operation for operation in self.rights.get((principal, kind, name), ()))

    def basis_of(self, principal):
        return (self.basis.get(principal),)


@pytest.fixture
def decider():
    return Decider()


@pytest.fixture
def cache(decider):
    return PermissionCache(decider.decide, decider.basis_of)


def test_a_decision_is_made_once(cache, decider):
    decider.rights["alice", TOPIC, "a"] = [READ]
    decider.rights["alice", TRANSACTIONAL_ID, "a"] = [WRITE]
    decider.rights["alice", CLUSTER, "kafka-cluster"] = [CLUSTER_ACTION]
    found = cache.find("alice", "10.0.0.1")
    for _ in range(3):
        assert found.may(READ, b"a")
        assert not found.may(WRITE, b"a")
        assert not found.may(READ, b"b")
        assert found.may_use(WRITE, b"a")
        assert not found.may_use(WRITE, b"b")
        assert found.may_on_cluster(CLUSTER_ACTION)
        assert not found.may_on_cluster(READ)
    assert sorted(decider.decided) == [
        ("alice", "10.0.0.1", TOPIC, "a"), ("alice", "10.0.0.1", TOPIC, "b"),
        ("alice", "10.0.0.1", CLUSTER, "kafka-cluster"), ("alice", "10.0.0.1", TRANSACTIONAL_ID, "a"),
        ("alice", "10.0.0.1", TRANSACTIONAL_ID, "b")]
    assert cache.decisions == 5


def test_connections_of_one_client_share_its_decisions(cache):
    found = cache.find("alice", "h")
    assert cache.find("alice", "h") is found
    assert cache.find("alice", "g") is not found
    assert cache.find("bob", "h") is not found


def test_nothing_is_kept_for_a_client_without_connections(cache, decider):
    found = cache.find("alice", "h")
    found.may(READ, b"a")
    del found
    gc.collect()
    cache.find("alice", "h").may(READ, b"a")
    assert len(decider.decided) == 2


def test_a_change_of_other_entries_keeps_decisions(cache, decider):
    decider.basis = {"alice": object(), "bob": object()}
    alice, bob = cache.find("alice", "h"), cache.find("bob", "h")
    alice.may(READ, b"a")
    bob.may(READ, b"a")
    decider.basis["bob"] = object()
    decider.rights["bob", TOPIC, "a"] = [READ]
    cache.changed()
    assert not alice.may(READ, b"a")
    assert bob.may(READ, b"a")
    assert len(decider.decided) == 3


def test_a_change_is_noticed_by_each_kind_of_decision(cache, decider):
    found = cache.find("alice", "h")
    assert not found.may(READ, b"a")
    assert not found.may_use(WRITE, b"a")
    assert not found.may_on_cluster(CLUSTER_ACTION)
    for kind, name, operation in ((TOPIC, "a", READ), (TRANSACTIONAL_ID, "a", WRITE),
                                  (CLUSTER, "kafka-cluster", CLUSTER_ACTION)):
        decider.rights["alice", kind, name] = [operation]
        decider.basis["alice"] = object()
        cache.changed()
        assert [found.may(READ, b"a"), found.may_use(WRITE, b"a"), found.may_on_cluster(CLUSTER_ACTION)][
            (TOPIC, TRANSACTIONAL_ID, CLUSTER).index(kind)]


def test_the_number_of_names_is_bounded(cache, decider):
    found = cache.find("alice", "h")
    for number in range(25_000):
        found.may(READ, b"%d" % number)
    assert len(decider.decided) == 25_000
    found.may(READ, b"24999")
    assert len(decider.decided) == 25_000
    found.may(READ, b"0")
    assert len(decider.decided) == 25_001


def test_a_name_that_is_no_text(cache, decider):
    assert not cache.find("alice", "h").may(READ, b"\xff")
    assert decider.decided[0][3] == "\ufffd"
