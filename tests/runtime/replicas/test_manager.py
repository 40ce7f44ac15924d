"""The way from a committed change to the role of a replica."""

import ast
import asyncio
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from kraft.broker.isr import IsrKeeper
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import MetadataImage
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.runtime.server_node import ServerNode
from kraft.steps import finish
from tests.runtime.nodes import config
from tests.runtime.replicas.test_creations import until
from tools.layers import python_imports
from tools.tree import ROOT

PATH = ["runtime/stages/commits.py", "runtime/replicas/manager.py", "broker/replica_roles.py", "broker/isr.py"]


def callers() -> list[str]:
    """Files of `kraft` on the stack, from the oldest call on; calls within a file count once."""
    found, frame = [], sys._getframe(2)
    while frame.f_back is not None:
        found.append(Path(frame.f_code.co_filename))
        frame = frame.f_back
    ours = [str(path.relative_to(ROOT / "kraft")) for path in reversed(found) if path.is_relative_to(ROOT / "kraft")]
    return [name for name, _ in groupby(name for name in ours if name != "steps.py")]


def test_calls_go_down_from_a_committed_change_to_a_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way has five files with the plan, and enters none of them twice."""
    stacks: list[list[str]] = []
    lead = IsrKeeper.lead

    def noted(self: IsrKeeper, *arguments: Any) -> None:
        stacks.append([*callers(), "broker/isr.py"])
        lead(self, *arguments)

    async def run() -> None:
        node = ServerNode(config(tmp_path))
        await node.start()
        try:
            received: list[tuple[MetadataDelta, MetadataImage]] = []
            node.parts.control.subscribe(lambda delta, image: received.append((delta, image)))
            answers: list[Any] = []
            node.parts.core.broker.submit(CreateTopicsRequest(topics=[
                CreatableTopic(name="t", num_partitions=1, replication_factor=1)]), 7, 0, answers.append)
            await until(lambda: answers and node.parts.path.table.get("t", 0) is not None)
            monkeypatch.setattr(IsrKeeper, "lead", noted)
            delta, image = next(each for each in received if each[0].topics.touched)
            finish(node.parts.commits.apply(delta, image))
        finally:
            node.stop()
            await node.run()

    asyncio.run(run())
    assert stacks == [PATH]


def test_only_the_manager_knows_all_of_the_room() -> None:
    room = ROOT / "kraft" / "runtime" / "replicas"
    for path in room.glob("*.py"):
        targets = {target for _, target in python_imports(ast.parse(path.read_text()))}
        assert "kraft.runtime.replicas.manager" not in targets, f"{path.name} imports its owner"
