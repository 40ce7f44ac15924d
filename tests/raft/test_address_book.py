"""Addresses of nodes: which sources count, and what is tried when an address does not work."""

from kraft.raft.address_book import NODES_MAX, AddressBook, Known
from kraft.raft.messages import FetchRequest
from kraft.raft.searching import announce
from kraft.raft.types import Endpoint
from tests.raft.world import World, address, key

LOGGED = (Endpoint("C", "logged", 1),)
LEARNED = (Endpoint("C", "told", 1),)


def test_announced_addresses_are_tried_before_the_log_and_then_in_rotation() -> None:
    world = World()
    replica = world.raft(2).replica
    assert replica.address_of(1) == address(1)[0]
    replica.learn_address(Known(key(1), 1 << 40, LEARNED))
    tried = []
    for _ in range(4):
        tried.append(replica.address_of(1))
        replica.address_failed(1)
    assert tried == [LEARNED[0], address(1)[0], LEARNED[0], address(1)[0]]
    replica.address_failed(1)
    replica.learn_address(Known(key(1), 1 << 41, address(9)))
    assert replica.address_of(1) == address(9)[0]


def test_a_node_with_one_address_is_tried_there_again_and_again() -> None:
    directory = AddressBook()
    assert directory.choose(1, ()) is None
    assert directory.choose(1, LOGGED) == LOGGED[0]
    replica = World().raft(2).replica
    replica.address_failed(1)
    assert replica.addresses.failures == {}


def test_nobody_fills_the_memory_and_nonsense_is_not_kept() -> None:
    directory = AddressBook()
    directory.learn(Known(key(1), 5, ()))
    directory.learn(Known(key(1)._replace(node_id=-1), 5, LEARNED))
    assert directory == AddressBook()
    for node_id in range(2 * NODES_MAX):
        directory.learn(Known(key(node_id), 5, LEARNED))
    assert len(directory.nodes) == NODES_MAX


def test_a_follower_whose_leader_is_not_where_it_was_said_to_be_tries_the_log() -> None:
    world = World()
    world.elect(1)
    replica = world.raft(2).replica
    replica.leader_endpoints = ()
    replica.addresses.learn(Known(key(1), 1 << 40, LEARNED))
    assert replica.address_of(1) == LEARNED[0]
    world.disconnect(2, 1)
    assert replica.address_of(1) == address(1)[0]
    world.pass_time(30)
    assert any(isinstance(each.message, FetchRequest) for each in world.wire) or replica.role.role == "Follower"


def test_failures_belong_to_addresses() -> None:
    """The list may change between two tries: what has failed is not tried again before what has not."""
    first, second, third = (Endpoint("C", name, 1) for name in "abc")
    book = AddressBook()
    book.sent(1, first)
    book.failed(1, (first, second))
    assert book.choose(1, (second, first)) == second
    assert book.choose(1, (third, first, second)) == third
    book.sent(1, third)
    book.failed(1, (third, first, second))
    assert book.choose(1, (first, second, third)) == second
    book.sent(1, second)
    book.failed(1, (first, third))              # the address that failed is no longer known
    assert book.failures == {}, "all that are known have failed"


def test_a_failure_is_that_of_the_address_of_the_request() -> None:
    """Another address became the likeliest while its answer was outstanding."""
    world = World()
    replica = world.raft(2).replica
    assert replica.address_of(1) == address(1)[0]
    announce(replica, 1)
    replica.addresses.nodes[1] = Known(key(1), 1 << 40, LEARNED)
    replica.address_failed(1)
    assert replica.address_of(1) == LEARNED[0]
    assert replica.addresses.failures == {1: address(1)}
