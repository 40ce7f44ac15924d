"""Decisions with 100,000 ACLs: kept, and not kept; and what one change of an ACL costs. Aims: 100 ns, 20 us."""

from uuid import UUID

import pytest

from kraft.config.authorizer_settings import AuthorizerSettings
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import EMPTY
from kraft.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from kraft.security.acls import Operation, PatternType, PermissionType, ResourceType
from kraft.security.authorizer import Authorizer
from kraft.security.principal import Principal

COUNT = 100_000
PRINCIPALS = {"one principal": 1, "1,000 principals": 1_000}
LOOPS = 100


def record(number, principals):
    """Four of five entries name one topic, the fifth a prefix."""
    is_prefix = number % 5 == 0
    return AccessControlEntryRecord(
        id=UUID(int=number * 0x9E3779B97F4A7C15 + 1), resource_type=ResourceType.TOPIC,
        resource_name=f"team-{number % 977}.{number}." if is_prefix else f"team-{number % 977}.{number}.orders",
        pattern_type=PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
        principal=f"User:u{number % principals}", host="*", operation=Operation.READ,
        permission_type=PermissionType.ALLOW)


@pytest.fixture(scope="module", params=PRINCIPALS.values(), ids=PRINCIPALS.keys())
def loaded(request):
    delta = MetadataDelta(EMPTY)
    for number in range(COUNT):
        delta.replay(record(number, request.param))
    image = delta.finish(COUNT, 0, 0)
    authorizer = Authorizer(AuthorizerSettings(frozenset({"User:admin"}), allow_everyone=False))
    authorizer.load(image)
    return authorizer, image, request.param


def test_a_decision_that_is_not_kept(benchmark, loaded):
    authorizer, _, principals = loaded
    numbers = iter(range(1 << 60))

    def decide():
        number = next(numbers) * 7919 % COUNT
        return authorizer.rights(Principal.user(f"u{number % principals}"), "10.0.0.7", ResourceType.TOPIC,
                                 f"team-{number % 977}.{number}.orders")

    assert decide()
    benchmark(decide)


def test_a_kept_decision(benchmark, loaded):
    """One call of a compiled method, the way from Python included."""
    found = loaded[0].permissions.find(Principal.user("u0"), "10.0.0.7")
    name = b"team-0.0.orders"
    assert found.may(Operation.READ, name)

    def decide():
        for _ in range(LOOPS):
            found.may(3, name)

    benchmark.extra_info["decisions"] = LOOPS
    benchmark(decide)


def test_a_change(benchmark, loaded):
    """A new entry as a record: a new image, and a new table."""
    authorizer, image, principals = loaded
    numbers = iter(range(COUNT, 1 << 60))

    def change():
        delta = MetadataDelta(image)
        delta.replay(record(next(numbers), principals))
        delta.finish(COUNT + 1, 0, 0)
        table = authorizer.table
        authorizer.changed(delta)
        authorizer.table = table

    benchmark(change)


def test_whether_any_topic_is_allowed(benchmark, loaded):
    authorizer = loaded[0]
    benchmark(authorizer.allows_any_name, Principal.user("u0"), "10.0.0.7", Operation.WRITE, ResourceType.TOPIC)
