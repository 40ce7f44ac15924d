"""CreateAcls and DeleteAcls: results of each entry and filter, and the records."""

from typing import Any
from uuid import UUID

import pytest

from kraft.controller import acls as decisions
from kraft.controller.decision import RECORDS_PER_DECISION_MAX
from kraft.metadata.replay import Replayer
from kraft.metadata.snapshot import image_records
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kraft.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kraft.security.acls import Acl
from tests.controller.world import World

OK = ErrorCode.NONE
ANY, LITERAL, PREFIXED, MATCH = 1, 3, 4, 2
TOPIC, GROUP, CLUSTER = 2, 3, 4
READ, WRITE = 3, 4
DENY, ALLOW = 2, 3


def world() -> World:
    return World(has_authorizer=True)


def acl(name: str = "orders", **fields: Any) -> AclCreation:
    return AclCreation(**{
        "resource_type": TOPIC, "resource_name": name, "resource_pattern_type": LITERAL, "principal": "User:alice",
        "host": "*", "operation": READ, "permission_type": ALLOW, **fields})


def create(where: World, *creations: AclCreation) -> list[int]:
    answer = where.send(CreateAclsRequest(creations=creations))
    assert all(bool(each.error_code) == bool(each.error_message) for each in answer.results)
    return [each.error_code for each in answer.results]


def selecting(name: str | None = None, **fields: Any) -> DeleteAclsFilter:
    return DeleteAclsFilter(**{
        "resource_type_filter": ANY, "resource_name_filter": name, "pattern_type_filter": ANY, "principal_filter": None,
        "host_filter": None, "operation": ANY, "permission_type": ANY, **fields})


def delete(where: World, *filters: DeleteAclsFilter) -> list[Any]:
    return where.send(DeleteAclsRequest(filters=filters)).filter_results  # type: ignore[no-any-return]


def names(result: Any) -> list[str]:
    assert result.error_code == OK
    assert result.error_message is None
    return sorted(each.resource_name for each in result.matching_acls)


def entries(where: World) -> list[Acl]:
    found = sorted(map(Acl.of, where.image.acls.values()))
    assert sorted(where.image.acl_ids) == found
    assert all(where.image.acl_ids[each] in where.image.acls for each in found)
    return found


def test_entries_are_created_once() -> None:
    where = world()
    assert create(where, acl(), acl(), acl(principal="User:bob")) == [0, 0, 0]
    end = where.log.end_offset
    assert create(where, acl()) == [0]
    assert where.log.end_offset == end
    assert entries(where) == [Acl(TOPIC, LITERAL, "orders", "User:alice", "*", READ, ALLOW),
                              Acl(TOPIC, LITERAL, "orders", "User:bob", "*", READ, ALLOW)]


@pytest.mark.parametrize(("fields", "says"), [
    ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
    ({"resource_type": 1}, "Invalid resourceType ANY"),
    ({"resource_type": 8}, "Invalid resourceType 8"),
    ({"resource_pattern_type": 1}, "Invalid patternType ANY"),
    ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
    ({"resource_pattern_type": 9}, "Invalid patternType 9"),
    ({"operation": 1}, "Invalid operation ANY"),
    ({"operation": 16}, "Invalid operation 16"),
    ({"permission_type": 1}, "Invalid permissionType ANY"),
    ({"permission_type": 4}, "Invalid permissionType 4"),
    ({"resource_name": ""}, "should not be empty"),
    ({"resource_type": CLUSTER, "resource_name": "my-cluster"}, "kafka-cluster"),
    ({"principal": "alice"}, "is not KIND:NAME"),
    ({"principal": "User:"}, "is not KIND:NAME"),
    ({"host": ""}, "host is empty"),
    ({"host": "a" * 32_768}, "longer than 32767"),
])
def test_a_wrong_entry_is_refused_alone(fields: dict[str, Any], says: str) -> None:
    where = world()
    answer = where.send(CreateAclsRequest(creations=[acl("a"), acl(**fields), acl("b")]))
    assert [each.error_code for each in answer.results] == [OK, ErrorCode.INVALID_REQUEST, OK]
    assert says in answer.results[1].error_message
    assert [each.resource_name for each in entries(where)] == ["a", "b"]


def test_filters_delete_what_they_select() -> None:
    where = world()
    create(where, acl("a"), acl("ab"), acl("a", resource_pattern_type=PREFIXED), acl("*"), acl("b", operation=WRITE),
           acl("a", resource_type=GROUP, principal="User:bob", host="10.0.0.1", permission_type=DENY))
    found = delete(where, selecting("ab", pattern_type_filter=MATCH), selecting("b"), selecting("b"),
                   selecting("nothing"), selecting(principal_filter="User:bob"), selecting(host_filter="10.0.0.1"))
    assert [names(each) for each in found] == [["*", "a", "ab"], ["b"], ["b"], [], ["a"], ["a"]]
    assert [each.resource_name for each in entries(where)] == ["a"]
    assert names(delete(where, selecting("a", resource_type_filter=TOPIC, pattern_type_filter=LITERAL,
                                         principal_filter="User:alice", host_filter="*", operation=READ,
                                         permission_type=ALLOW))[0]) == ["a"]
    assert entries(where) == []


def test_the_selected_entries_are_named_whole() -> None:
    where = world()
    create(where, acl("a", resource_pattern_type=PREFIXED, host="10.0.0.0/8", permission_type=DENY))
    found = delete(where, selecting("a"))[0].matching_acls[0]
    assert (found.error_code, found.resource_type, found.resource_name, found.pattern_type, found.principal, found.host,
            found.operation, found.permission_type) == (
        OK, TOPIC, "a", PREFIXED, "User:alice", "10.0.0.0/8", READ, DENY)


@pytest.mark.parametrize("fields", [
    {"resource_type_filter": 0}, {"resource_type_filter": 8}, {"pattern_type_filter": 5}, {"operation": 0},
    {"operation": 16}, {"permission_type": 0}, {"permission_type": 4}])
def test_an_unknown_filter_is_refused_alone(fields: dict[str, int]) -> None:
    where = world()
    create(where, acl("a"))
    found = delete(where, selecting("a", **fields), selecting("a"))
    assert found[0].error_code == ErrorCode.INVALID_REQUEST
    assert names(found[1]) == ["a"]


def test_a_filter_of_too_many_entries_is_refused_and_deletes_nothing() -> None:
    where = world()
    for start in range(0, RECORDS_PER_DECISION_MAX + 1, 5_000):
        create(where, *(acl(f"t{number}") for number in range(start, min(start + 5_000, RECORDS_PER_DECISION_MAX + 1))))
    found = delete(where, selecting(), selecting("t7"))
    assert found[0].error_code == ErrorCode.POLICY_VIOLATION
    assert names(found[1]) == ["t7"]
    assert len(where.image.acls) == RECORDS_PER_DECISION_MAX


def test_searches_of_one_request_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "COMPARISONS_MAX", 6)
    where = world()
    create(where, acl("a"), acl("b"))
    found = delete(where, *(selecting(host_filter=f"10.0.0.{number}") for number in range(4)), selecting("a"))
    assert [each.error_code for each in found] == [OK, OK, OK, ErrorCode.POLICY_VIOLATION, OK]
    assert names(found[4]) == ["a"]


def test_one_request_takes_effect_in_one_batch() -> None:
    where = world()
    create(where, *(acl(f"t{number}") for number in range(1_000)))
    assert where.log.batches[-1] == 1_000
    delete(where, selecting())
    assert where.log.batches[-1] == 1_000


def test_without_an_authorizer_everything_is_refused() -> None:
    where = World()
    assert create(where, acl(), acl()) == [ErrorCode.SECURITY_DISABLED] * 2
    assert [each.error_code for each in delete(where, selecting())] == [ErrorCode.SECURITY_DISABLED]
    assert not where.image.acls


def test_entries_come_back_from_a_snapshot() -> None:
    where = world()
    create(where, *(acl(f"t{number}", principal=f"User:u{number % 7}") for number in range(200)))
    delete(where, selecting(principal_filter="User:u3"))
    replayer = Replayer()
    for offset, record in enumerate(image_records(where.image)):
        replayer.replay(record.message, offset, 1, 0)
    replayer.take()
    assert replayer.image.state() == where.image.state()
    assert replayer.image.acls
    assert len(replayer.image.acl_ids) == len(replayer.image.acls)


def test_a_log_with_an_entry_twice() -> None:
    """Another program may have written it."""
    replayer = Replayer()
    fields = {"resource_type": TOPIC, "resource_name": "a", "pattern_type": LITERAL, "principal": "User:a", "host": "*",
              "operation": READ, "permission_type": ALLOW}
    records = [AccessControlEntryRecord(id=each.id, **fields) for each in _removals(2)]
    for offset, record in enumerate((*records, *_removals(1), records[0])):
        replayer.replay(record, offset, 1, 0)
    replayer.take()
    assert len(replayer.image.acls) == 2
    once = Replayer()
    for offset, record in enumerate((*records, *_removals(1))):
        once.replay(record, offset, 1, 0)
    once.take()
    assert list(once.image.acl_ids.values()) == [records[1].id]
    assert list(replayer.image.acl_ids.values()) == [records[0].id]
    for offset, record in enumerate(_removals(2), 10):
        replayer.replay(record, offset, 1, 0)
    replayer.take()
    assert not replayer.image.acls
    assert not replayer.image.acl_ids


def _removals(count: int) -> list[RemoveAccessControlEntryRecord]:
    return [RemoveAccessControlEntryRecord(id=UUID(int=number)) for number in range(1, count + 1)]
