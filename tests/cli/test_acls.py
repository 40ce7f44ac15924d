"""`kraft acls`."""

import json
from collections.abc import Iterator

import pytest

from kraft.config.authorizer_settings import STANDARD_AUTHORIZER
from tests.cli.nodes import Started, Tool, running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with running(tmp_path_factory.mktemp("guarded") / "data", "--set", f"authorizer.class.name={STANDARD_AUTHORIZER}",
                 "--set", "super.users=User:ANONYMOUS;User:root") as started:
        yield started


@pytest.fixture
def acls(guarded: Started, capsys: pytest.CaptureFixture[str]) -> Iterator[Tool]:
    tool = Tool(guarded.bootstrap, capsys)
    yield tool
    tool.run("acls", "remove", "--resource-pattern-type", "any", *(
        part for name in ("User:a", "User:b", "User:*") for part in ("--principal", name)))


def row(principal: str, operation: str, resource: str, name: str, *, permission: str = "allow", host: str = "*",
        pattern: str = "literal") -> dict[str, str]:
    return {"permission": permission, "principal": principal, "host": host, "operation": operation,
            "resource": resource, "name": name, "pattern": pattern}


def listed(tool: Tool, *options: str) -> list[dict[str, str]]:
    return tool.json("acls", "list", *options)


def test_entries_from_their_addition_to_their_removal(acls: Tool) -> None:
    one = ("--allow-principal", "User:a", "--operation", "Read", "--topic", "t")
    assert acls.json("acls", "add", *one) == [row("User:a", "read", "topic", "t")]
    assert acls.json("acls", "add", *one) == [row("User:a", "read", "topic", "t")]
    assert acls.json("acls", "add", "--deny-principal", "User:b", "--deny-host", "10.0.0.0/8", "--topic", "t-",
                     "--group", "g", "--resource-pattern-type", "prefixed", "--operation", "describe") == [
        row("User:b", "describe", kind, name, permission="deny", host="10.0.0.0/8", pattern="prefixed")
        for kind, name in (("topic", "t-"), ("group", "g"))]
    assert acls.json("acls", "add", "--allow-principal", "User:b", "--cluster") == [
        row("User:b", "all", "cluster", "kafka-cluster")]
    assert len(listed(acls)) == 4
    assert listed(acls, "--principal", "User:a") == [row("User:a", "read", "topic", "t")]
    assert [each["name"] for each in listed(acls, "--topic", "t-1", "--resource-pattern-type", "match")] == ["t-"]
    assert [each["name"] for each in listed(acls, "--topic", "t")] == ["t"]
    assert acls.json("acls", "remove", *one) == [row("User:a", "read", "topic", "t")]
    code, _, error = acls.run("acls", "remove", *one)
    assert (code, "no such entry" in error) == (1, True)
    assert [each["resource"] for each in acls.json("acls", "remove", "--principal", "User:b",
                                                   "--resource-pattern-type", "any")] == ["topic", "group", "cluster"]
    assert acls.run("acls", "list")[:2] == (0, "PERMISSION  PRINCIPAL  HOST  OPERATION  RESOURCE  NAME  PATTERN\n")


def test_the_metadata_shell_names_the_codes(acls: Tool) -> None:
    acls.run("acls", "add", "--deny-principal", "User:a", "--operation", "alter-configs", "--topic", "t",
             "--resource-pattern-type", "prefixed")
    code, out, _ = acls.run("metadata", "cat", "/acls", "--json")
    assert code == 0
    assert list(json.loads(out).values()) == [{
        "resource_type": "TOPIC", "resource_name": "t", "pattern_type": "PREFIXED", "principal": "User:a", "host": "*",
        "operation": "ALTER_CONFIGS", "permission_type": "DENY"}]


def test_what_producers_and_consumers_need(acls: Tool) -> None:
    found = acls.json("acls", "add", "--allow-principal", "User:a", "--producer", "--consumer", "--idempotent",
                      "--topic", "t", "--group", "g", "--transactional-id", "x")
    assert sorted((each["resource"], each["operation"]) for each in found) == [
        ("cluster", "idempotent-write"), ("group", "read"), ("topic", "create"), ("topic", "describe"),
        ("topic", "read"), ("topic", "write"), ("transactional-id", "describe"), ("transactional-id", "write")]


def test_the_entry_that_decides(acls: Tool) -> None:
    def tried(*arguments: str) -> tuple[int, str]:
        code, out, _ = acls.run("acls", "test", *arguments)
        return code, out

    acls.run("acls", "add", "--allow-principal", "User:a", "--operation", "write", "--topic", "t")
    acls.run("acls", "add", "--deny-principal", "User:*", "--deny-host", "10.0.0.0/8", "--topic", "t",
             "--resource-pattern-type", "prefixed")
    assert tried("User:a", "describe", "topic:t") == (
        0, "allowed: an entry allows it: ALLOW User:a from * WRITE on TOPIC t (LITERAL)\n")
    assert tried("User:a", "write", "topic:t", "--host", "10.1.1.1") == (
        1, "denied: an entry denies it: DENY User:* from 10.0.0.0/8 ALL on TOPIC t (PREFIXED)\n")
    assert tried("User:a", "read", "topic:t") == (1, "denied: no entry allows it\n")
    assert tried("User:a", "create", "cluster") == (1, "denied: no entry selects the resource\n")
    assert tried("User:root", "create", "cluster") == (0, "allowed: User:root is a super user\n")
    code, out, _ = acls.run("acls", "test", "User:a", "write", "topic:t", "--json")
    assert (code, '"acl": {"permission": "allow"' in out) == (0, True)


@pytest.mark.parametrize(("arguments", "says"), [
    ("add --allow-principal User:a", "name a resource"),
    ("add --topic t", "name a principal"),
    ("add --allow-principal User:a --topic t --operation fly", "'fly' is not one of all, read"),
    ("add --allow-principal User:a --group g --operation write", "a group has no operation write"),
    ("add --allow-principal User:a --producer --group g", "need a --topic"),
    ("add --allow-principal User:a --consumer --topic t", "needs a --group"),
    ("add --allow-principal User:a --idempotent --topic t", "--idempotent is for --producer"),
    ("add --allow-principal User:a --producer --topic t --operation read", "leave out --operation"),
    ("add --deny-principal User:a --producer --topic t", "leave out"),
    ("add --allow-host h --topic t", "--allow-host needs --allow-principal"),
    ("add --allow-principal User:a --topic t --resource-pattern-type match", "resource-pattern-type"),
    ("remove", "name a resource"),
    ("test alice read topic:t", "is not KIND:NAME"),
    ("test User:a read shelf:t", "is not TYPE:NAME"),
    ("test User:a read topic", "is not TYPE:NAME"),
])
def test_wrong_usage(acls: Tool, arguments: str, says: str) -> None:
    code, _, error = acls.run("acls", *arguments.split())
    assert (code, says in error) == (2, True), error


def test_a_refused_entry_is_named(acls: Tool) -> None:
    code, _, error = acls.run("acls", "add", "--allow-principal", "alice", "--topic", "t")
    assert code == 1
    assert "is not KIND:NAME" in error and "INVALID_REQUEST" in error


def test_a_cluster_without_authorizer(tool: Tool) -> None:
    for arguments in (("list",), ("add", "--allow-principal", "User:a", "--topic", "t"), ("remove", "--topic", "t"),
                      ("test", "User:a", "read", "topic:t")):
        code, _, error = tool.run("acls", *arguments)
        assert (code, "SECURITY_DISABLED" in error) == (1, True), error
