"""`kraft configs` against a node."""

import pytest

from kraft.cli.configs import _change
from kraft.client.configs import Change, Operation
from kraft.config.errors import InvalidConfigError
from tests.cli.nodes import Started, Tool


def settings(tool: Tool, *arguments: object) -> dict[str, str]:
    return {row["setting"]: row["value"] for row in tool.json("configs", "describe", *arguments)}


@pytest.mark.parametrize(("text", "change"), [
    ("a=b", Change("a", Operation.SET, "b")),
    ("a.b=", Change("a.b", Operation.SET, "")),
    ("a+=b=c", Change("a", Operation.APPEND, "b=c")),
    ("a-b-=c", Change("a-b", Operation.SUBTRACT, "c")),
    ("a=b+=c", Change("a", Operation.SET, "b+=c")),
])
def test_changes(text: str, change: Change) -> None:
    assert _change(text) == change


@pytest.mark.parametrize("text", ["a", "=b", "+=b", "", "a b=c"])
def test_no_changes(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="is not KEY=VALUE"):
        _change(text)


def test_a_topics_settings(tool: Tool) -> None:
    tool.json("topics", "create", "c1")
    assert tool.run("configs", "set", "topic", "c1", "retention.ms=5000", "cleanup.policy+=compact") == (
        0, "topic c1: changed: retention.ms, cleanup.policy\n", "")
    assert settings(tool, "topic", "c1").items() >= {"retention.ms": "5000",
                                                     "cleanup.policy": "delete,compact"}.items()
    tool.json("configs", "set", "topic", "c1", "cleanup.policy-=delete")
    assert settings(tool, "topic", "c1")["cleanup.policy"] == "compact"
    assert tool.json("configs", "delete", "topic", "c1", "retention.ms") == [
        {"kind": "topic", "name": "c1", "setting": "retention.ms", "operation": "delete", "value": None,
         "result": "changed"}]
    everything = {row["setting"]: row for row in tool.json("configs", "describe", "topic", "c1", "--all",
                                                           "--documentation")}
    assert everything["retention.ms"]["source"] == "default"
    assert everything["retention.ms"]["value"] == "604800000"
    assert all(row["documentation"] and not row["read_only"] for row in everything.values())


def test_missing_names(tool: Tool) -> None:
    """The cluster reports its defaults for any name."""
    for kind, code in (("topic", "UNKNOWN_TOPIC_OR_PARTITION"), ("group", "GROUP_ID_NOT_FOUND"),
                       ("client-metrics", "RESOURCE_NOT_FOUND")):
        for options in ((), ("--all",)):
            ended, out, complaint = tool.run("configs", "describe", kind, "nowhere", *options)
            assert (ended, out) == (1, "")
            assert complaint.endswith(f"({code})\n")
    tool.json("configs", "set", "group", "c3", "consumer.session.timeout.ms=50000")
    assert settings(tool, "group", "c3") == {"consumer.session.timeout.ms": "50000"}


def test_refused_as_a_whole(tool: Tool) -> None:
    tool.json("topics", "create", "c2")
    before = settings(tool, "topic", "c2")
    for bad in ("retention.mss=5", "segment.bytes=-1"):
        code, out, complaint = tool.run("configs", "set", "topic", "c2", "retention.ms=1", bad)
        assert (code, out) == (1, "")
        assert complaint.startswith("kraft: topic c2: ")
        assert complaint.endswith("(INVALID_CONFIG)\n")
    assert settings(tool, "topic", "c2") == before
    assert tool.json("configs", "set", "topic", "c2", "retention.ms=1", "--validate-only")[0]["result"] == (
        "would be changed")
    assert settings(tool, "topic", "c2") == before


def test_brokers_and_groups(tool: Tool, node: Started) -> None:
    tool.json("configs", "set", "broker", "all", "log.retention.ms=700000")
    tool.json("configs", "set", "broker", 1, "log.retention.ms=800000")
    rows = {(row["name"], row["setting"]): row for row in tool.json("configs", "describe", "broker", 1, "all")}
    assert rows["1", "log.retention.ms"]["value"] == "800000"
    assert rows["1", "log.retention.ms"]["source"] == "broker, dynamic"
    assert rows["all", "log.retention.ms"]["value"] == "700000"
    assert rows["1", "log.dirs"]["read_only"]
    assert rows["1", "log.dirs"]["value"] == node.ready["data"][0]
    tool.json("configs", "delete", "broker", "all", "log.retention.ms")
    tool.json("configs", "delete", "broker", 1, "log.retention.ms")
    tool.json("configs", "set", "group", "g", "consumer.session.timeout.ms=50000")
    assert settings(tool, "group", "g") == {"consumer.session.timeout.ms": "50000"}
    assert tool.run("configs", "describe", "broker", "x") == (1, "", "kraft: broker 'x' is no number of a node\n")
    assert tool.run("configs", "describe", "broker", 7) == (1, "", "kraft: node 7: the cluster has [1]\n")


def test_settings_without_effect_are_set_with_a_warning(tool: Tool) -> None:
    for resource in ("all", 1):
        code, out, complaints = tool.run("configs", "set", "broker", resource, "num.io.threads=9", "my.plug.in=x",
                                         "log.retention.ms=800000")
        assert (code, out) == (0, f"broker {resource}: changed: num.io.threads, my.plug.in, log.retention.ms\n")
        assert [line.partition(" is accepted and has no effect. ")[0] for line in complaints.splitlines()] == [
            "warning: num.io.threads", "warning: my.plug.in"]
        rows = {row["setting"]: row for row in tool.json("configs", "describe", "broker", resource)}
        assert (rows["my.plug.in"]["sensitive"], rows["my.plug.in"]["value"]) == (True, None)
        tool.json("configs", "delete", "broker", resource, "num.io.threads", "my.plug.in", "log.retention.ms")


def test_a_topic_is_created_with_the_same_warning(tool: Tool) -> None:
    settings = ("--config", "local.retention.ms=5", "--config", "retention.ms=7")
    code, out, complaints = tool.run("topics", "create", "c8", "c9", *settings)
    assert (code, out) == (0, "c8: created\nc9: created\n")
    assert [line.partition(" is accepted and has no effect. ")[0] for line in complaints.splitlines()] == [
        "warning: local.retention.ms"]
    [made] = tool.json("topics", "create", "c10", *settings)
    assert [text.partition(" ")[0] for text in made["warnings"]] == ["local.retention.ms"]


def test_addresses_cannot_be_changed(tool: Tool) -> None:
    rows = {row["setting"]: row for row in tool.json("configs", "describe", "broker", 1, "--all")}
    assert [rows[name]["read_only"] for name in ("listeners", "listener.security.protocol.map", "log.cleaner.threads")
            ] == [True, True, False]


def test_internal_settings_are_listed_when_they_are_set(tool: Tool) -> None:
    tool.json("topics", "create", "internal")
    assert "internal.segment.bytes" not in settings(tool, "topic", "internal")
    tool.json("configs", "set", "topic", "internal", "internal.segment.bytes=99999")
    assert settings(tool, "topic", "internal")["internal.segment.bytes"] == "99999"
