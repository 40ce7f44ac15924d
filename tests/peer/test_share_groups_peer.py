"""Kafka's own tool for share groups on our node: lists, describes, sets and deletes start offsets, deletes groups."""

from pathlib import Path

import pytest

from tests.integration.admin import close_admins, create, wait_until
from tests.integration.clients import Record, librdkafka_produce
from tests.integration.process import NodeProcess
from tests.integration.test_share_groups import QUICK, Member
from tests.peer.tools import Tools, tools

pytestmark = pytest.mark.peer


def run(tool: Tools, node: NodeProcess, *arguments: str) -> str:
    done = tool.run("kafka-share-groups", "--bootstrap-server", node.address, *arguments)
    assert done.code == 0, done.text
    return done.text


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def test_kafkas_tool(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data", QUICK)
    node.start()
    try:
        with tools(tmp_path) as tool:
            create(node, "shared", 3)
            for partition in range(3):
                librdkafka_produce(node, "shared", [Record(None, b"x")] * 5, partition=partition)
            member = Member(node, "first")
            wait_until(lambda: not member.beat() and len(member.partitions) == 3, "a member", seconds=30)
            assert ["g"] in words(run(tool, node, "--list"))
            assert ["g", "Stable"] in words(run(tool, node, "--list", "--state"))
            members = words(run(tool, node, "--describe", "--group", "g", "--members", "--verbose"))
            assert [line[:2] for line in members[1:]] == [["g", "first"]], members
            assert ["Error:", "Executing"] not in [line[:2] for line in members]
            described = run(tool, node, "--describe", "--group", "g", "--state")
            assert "Stable" in described
            member.beat(-1)
            reset = run(tool, node, "--reset-offsets", "--group", "g", "--to-earliest", "--topic", "shared",
                        "--execute")
            assert ["g", "shared", "2", "0"] in words(reset), reset
            offsets = words(run(tool, node, "--describe", "--group", "g"))
            assert ["g", "shared", "1", "0", "5"] in [line[:5] for line in offsets], offsets
            deleted = run(tool, node, "--delete-offsets", "--group", "g", "--topic", "shared")
            assert "Successful" in deleted, deleted
            assert "successful" in run(tool, node, "--delete", "--group", "g")
            assert ["g"] not in words(run(tool, node, "--list"))
    finally:
        close_admins()
        node.stop()
