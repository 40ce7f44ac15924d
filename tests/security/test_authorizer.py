"""Decisions of the authorizer: super users, entries, what applies without any, and changes."""

import uuid

import pytest

from kraft.config.authorizer_settings import STANDARD_AUTHORIZER, AuthorizerSettings
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import EMPTY
from kraft.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from kraft.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kraft.security.acls import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from kraft.security.authorizer import Authorizer, authorizer_of
from kraft.security.principal import ANONYMOUS, Principal

ALICE, BOB, ADMIN = map(Principal.user, ("alice", "bob", "admin"))
HOST = "10.0.0.7"
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


def entry(operation, name="orders", principal="User:alice", permission=ALLOW, kind=TOPIC, host="*",
          pattern=PatternType.LITERAL):
    return AccessControlEntryRecord(
        id=uuid.uuid4(), resource_type=kind, resource_name=name, pattern_type=pattern, principal=principal, host=host,
        operation=operation, permission_type=permission)


def authorizer(*records, everyone=False):
    found = Authorizer(AuthorizerSettings(frozenset({"User:admin"}), everyone))
    delta = MetadataDelta(EMPTY)
    for record in records:
        delta.replay(record)
    found.load(delta.finish(0, 0, 0))
    return found


def test_without_entries_only_super_users_may():
    found = authorizer()
    assert found.allows(ADMIN, HOST, Operation.ALTER, CLUSTER, CLUSTER_NAME)
    assert found.allows_any_name(ADMIN, HOST, Operation.WRITE, TOPIC)
    assert not found.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")
    assert not found.allows_any_name(ALICE, HOST, Operation.WRITE, TOPIC)


def test_a_super_user_may_although_an_entry_denies():
    found = authorizer(entry(Operation.ALL, "*", "User:*", DENY))
    assert found.allows(ADMIN, HOST, Operation.READ, TOPIC, "orders")
    assert found.allows_any_name(ADMIN, HOST, Operation.WRITE, TOPIC)
    assert not found.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")


def test_before_the_entries_are_loaded_only_super_users_may():
    found = Authorizer(AuthorizerSettings(frozenset({"User:admin"}), allow_everyone=True))
    assert found.allows(ADMIN, HOST, Operation.READ, TOPIC, "orders")
    assert not found.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")
    assert not found.allows_any_name(ALICE, HOST, Operation.WRITE, TOPIC)
    found.load(EMPTY, is_complete=False)
    assert not found.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")
    found.load(EMPTY)
    assert found.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")


def test_everyone_may_only_where_no_entry_of_anybody_selects_the_resource():
    found = authorizer(entry(Operation.READ), entry(Operation.READ, "log-", pattern=PatternType.PREFIXED),
                       everyone=True)
    assert found.allows(BOB, HOST, Operation.WRITE, TOPIC, "payments")
    assert found.allows(BOB, HOST, Operation.WRITE, GROUP, "orders")
    for name in ("orders", "log-a"):
        assert not found.allows(BOB, HOST, Operation.READ, TOPIC, name)
        assert not found.allows(ALICE, HOST, Operation.WRITE, TOPIC, name)


def test_what_a_client_may_has_only_operations_of_the_type():
    found = authorizer(entry(Operation.READ), entry(Operation.ALL, CLUSTER_NAME, kind=CLUSTER))
    assert found.allowed_operations(ALICE, HOST, TOPIC, "orders") == 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert found.allowed_operations(ALICE, HOST, CLUSTER, CLUSTER_NAME) == sum(
        1 << code for code in (5, 7, 8, 9, 10, 11, 12))
    assert found.allowed_operations(ADMIN, HOST, TOPIC, "orders") == sum(
        1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
    assert found.allowed_operations(BOB, HOST, TOPIC, "orders") == 0


def test_an_entry_that_denies_implies_nothing():
    found = authorizer(entry(Operation.ALL), entry(Operation.READ, permission=DENY))
    assert not found.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")
    assert found.allows(ALICE, HOST, Operation.DESCRIBE, TOPIC, "orders")


def test_hosts():
    found = authorizer(entry(Operation.READ, host="10.0.0.0/8"), entry(Operation.WRITE, host="2001:db8:0:0:0:0:0:1"))
    assert found.allows(ALICE, "10.9.9.9", Operation.READ, TOPIC, "orders")
    assert found.allows(ALICE, "::ffff:10.9.9.9", Operation.READ, TOPIC, "orders")
    assert not found.allows(ALICE, "11.0.0.1", Operation.READ, TOPIC, "orders")
    assert not found.allows(ALICE, "", Operation.READ, TOPIC, "orders")
    assert found.allows(ALICE, "2001:db8::1", Operation.WRITE, TOPIC, "orders")


def test_a_change_takes_effect_whole():
    first, second = entry(Operation.READ), entry(Operation.READ, permission=DENY)
    found = authorizer(first)
    delta = MetadataDelta(EMPTY)
    delta.replay(first)
    before = delta.finish(0, 0, 0)
    version = found.version
    delta = MetadataDelta(before)
    for record in (second, RemoveAccessControlEntryRecord(id=first.id), entry(Operation.WRITE)):
        delta.replay(record)
    assert found.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")
    found.changed(delta)
    assert found.version == version + 1
    assert not found.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")
    assert found.allows(ALICE, HOST, Operation.WRITE, TOPIC, "orders")
    found.changed(MetadataDelta(before))
    assert found.version == version + 1


def test_idempotent_writes_need_one_topic_that_is_not_denied():
    write = Operation.WRITE
    assert authorizer(entry(write)).allows_any_name(ALICE, HOST, write, TOPIC)
    assert not authorizer(entry(write)).allows_any_name(BOB, HOST, write, TOPIC)
    assert not authorizer(entry(Operation.READ)).allows_any_name(ALICE, HOST, write, TOPIC)
    assert not authorizer(entry(write), entry(write, permission=DENY)).allows_any_name(ALICE, HOST, write, TOPIC)
    assert not authorizer(entry(write), entry(Operation.ALL, "or", "User:*", DENY, pattern=PatternType.PREFIXED)
                          ).allows_any_name(ALICE, HOST, write, TOPIC)
    assert authorizer(entry(write, pattern=PatternType.PREFIXED), entry(write, permission=DENY)
                      ).allows_any_name(ALICE, HOST, write, TOPIC), "other topics have the prefix, too"
    assert not authorizer(entry(write, host="10.1.0.0/16")).allows_any_name(ALICE, HOST, write, TOPIC)
    assert authorizer(entry(write, host="10.0.0.0/16")).allows_any_name(ALICE, HOST, write, TOPIC)


@pytest.mark.parametrize("principal", [ANONYMOUS, Principal("Group", "x")])
def test_entries_of_every_user_are_for_every_principal(principal):
    assert authorizer(entry(Operation.READ, principal="User:*")).allows(
        principal, HOST, Operation.READ, TOPIC, "orders")


def test_settings_name_the_authorizer():
    assert authorizer_of({}) is None
    found = authorizer_of({"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"})
    assert found.is_super_user(ADMIN)
    assert not found.is_super_user(BOB)


def test_a_large_change_takes_effect_with_its_last_step():
    found = authorizer(entry(Operation.READ))
    delta = MetadataDelta(EMPTY)
    for number in range(1_000):
        delta.replay(entry(Operation.READ, f"t{number}", permission=DENY if number == 0 else ALLOW,
                           principal=f"User:u{number % 100}"))
    steps, version = found.changed_steps(delta), found.version
    user = Principal.user("u1")
    count = 0
    for _ in steps:
        count += 1
        assert found.version == version
        assert not found.allows(user, HOST, Operation.READ, TOPIC, "t1")
    assert count > 10
    assert found.allows(user, HOST, Operation.READ, TOPIC, "t1")
    assert found.allows(ALICE, HOST, Operation.READ, TOPIC, "orders")
    assert found.version == version + 1


def test_kept_decisions_follow_each_change():
    found = Authorizer(AuthorizerSettings(frozenset({"User:admin"}), allow_everyone=True))
    alice = found.permissions.find(ALICE, HOST)
    assert not alice.may(Operation.READ, b"orders")
    found.load(EMPTY, is_complete=False)
    assert not alice.may(Operation.READ, b"orders")
    found.complete()
    assert alice.may(Operation.READ, b"orders")
    image = EMPTY
    for record, expected in ((entry(Operation.READ, principal="User:bob"), False), (entry(Operation.READ), True),
                             (entry(Operation.READ, principal="User:*", permission=DENY), False)):
        delta = MetadataDelta(image)
        delta.replay(record)
        image = delta.finish(image.offset + 1, 0, 0)
        found.changed(delta)
        assert alice.may(Operation.READ, b"orders") == expected
    assert found.permissions.find(ADMIN, HOST).may(Operation.READ, b"orders")
