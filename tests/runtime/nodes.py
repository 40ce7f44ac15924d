"""Nodes for tests: a real one on a loop in this process, with kraft's clients in a thread beside it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from kraft.client import Cluster
from kraft.config.node_config import NodeConfig
from kraft.runtime.controller_node import ControllerNode
from kraft.runtime.server_node import ServerNode

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
}


def config(data: Path, **settings: str) -> NodeConfig:
    """Return a node's configuration on loopback with ports that the system chooses."""
    changed = {name.replace("_", "."): text for name, text in settings.items()}
    return NodeConfig({"log.dirs": str(data), **SETTINGS, **changed})


def with_node(settings: NodeConfig, work: Callable[[Cluster, ServerNode], Any]) -> Any:
    """Start a node, run `work` in a thread with a client of the node, stop the node, and return the result of
    `work`. The node receives no attribute after its constructor."""

    async def main() -> Any:
        node = ServerNode(settings)
        constructed = list(vars(node))
        await node.start()
        assert list(vars(node)) == constructed
        try:
            return await asyncio.to_thread(_work, node, work)
        finally:
            node.stop()
            await node.run()

    return uvloop.run(main())


def with_controller(settings: NodeConfig, work: Callable[[ControllerNode], Any]) -> None:
    """Start a node that is only a controller, run `work` in a thread, and stop the node."""

    async def main() -> None:
        node = ControllerNode(settings)
        await node.start()
        try:
            await asyncio.to_thread(work, node)
        finally:
            node.stop()
            await node.run()

    uvloop.run(main())


def _work(node: ServerNode, work: Callable[[Cluster, ServerNode], Any]) -> Any:
    with Cluster(f"127.0.0.1:{node.listeners['PLAINTEXT'].port}", timeout=10) as cluster:
        return work(cluster, node)
