"""Listeners that open before or after all ACLs are known (`early.start.listeners`)."""

import asyncio
import logging
import uuid
from pathlib import Path

import pytest
import uvloop

from kraft.client import Cluster
from kraft.client.connection import Connection
from kraft.config.authorizer_settings import STANDARD_AUTHORIZER
from kraft.config.errors import InvalidConfigError
from kraft.config.node_config import NodeConfig
from kraft.log_dir import new_cluster_id
from kraft.metadata.image import Endpoint
from kraft.runtime.controller_node import ControllerNode
from kraft.runtime.quorum.cluster_id import StoppedAtStartError
from kraft.runtime.server_node import ServerNode
from kraft.runtime.storage.formatting import FormatRequest, format_storage
from tests.ports import free_ports
from tests.runtime.nodes import config, with_controller, with_node

ACLS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
EARLY = "early.start.listeners"


def controller(directory: Path, voters: int = 1, **settings: str) -> NodeConfig:
    """A formatted controller, one of so many; the others do not exist."""
    own, *others = free_ports(voters)
    format_storage(FormatRequest(1, new_cluster_id(), (directory,), (Endpoint("CTRL", "127.0.0.1", own, 0),),
                                 standalone=False), 0, uuid.uuid4)
    return NodeConfig({
        "process.roles": "controller", "node.id": "1", "log.dirs": str(directory),
        "listeners": f"CTRL://127.0.0.1:{own}", "controller.listener.names": "CTRL",
        "listener.security.protocol.map": "CTRL:PLAINTEXT",
        "controller.quorum.voters": ",".join(f"{at}@127.0.0.1:{port}" for at, port in enumerate((own, *others), 1)),
        **settings})


def test_listeners_are_named_in_any_case_and_exist(tmp_path: Path) -> None:
    assert config(tmp_path).early_listeners == ("CONTROLLER",)
    assert config(tmp_path, **{EARLY: "plaintext, controller"}).early_listeners == ("PLAINTEXT", "CONTROLLER")
    assert config(tmp_path, **{EARLY: ""}).early_listeners == ()
    with pytest.raises(InvalidConfigError, match=r"early\.start\.listeners: OTHER is none of listeners"):
        config(tmp_path, **{EARLY: "CONTROLLER,OTHER"})


@pytest.mark.parametrize(("settings", "is_early"), [
    ({}, True), ({EARLY: ""}, True), (ACLS, True), (ACLS | {EARLY: "ctrl"}, True), (ACLS | {EARLY: ""}, False)])
def test_a_controller_without_a_leader(tmp_path: Path, settings: dict[str, str], is_early: bool,
                                       caplog: pytest.LogCaptureFixture) -> None:
    """Its quorum has no majority, so it never knows all entries. Only a late listener waits, with an authorizer."""
    caplog.set_level(logging.INFO)
    node_config = controller(tmp_path, 3, **settings)

    async def main() -> None:
        node = ControllerNode(node_config)
        starting = asyncio.create_task(node.start())
        while not starting.done() and "opens when all ACLs are known" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0)     # an iteration of the loop, in which the start continues
        port, accepted = node.listeners["CTRL"].port, starting.done()
        try:
            if is_early:
                await asyncio.to_thread(lambda: Connection("127.0.0.1", port, timeout=10).close())
            else:
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.open_connection("127.0.0.1", port)
        finally:
            node.stop()
            if accepted:
                await node.run()
        assert accepted is is_early
        if not is_early:
            with pytest.raises(StoppedAtStartError, match="before CTRL knew all ACLs"):
                await starting

    uvloop.run(main())


def test_a_late_listener_opens_when_the_entries_are_known(tmp_path: Path) -> None:
    def work(node: ControllerNode) -> None:
        assert node.parts.quorum.authorizer is not None
        assert node.parts.quorum.authorizer.is_loaded
        Connection("127.0.0.1", node.listeners["CTRL"].port, timeout=10).close()

    with_controller(controller(tmp_path, **ACLS, **{EARLY: ""}), work)


@pytest.mark.parametrize("early", ["", "PLAINTEXT", "CONTROLLER"])
def test_a_node_of_both_roles_opens_all(tmp_path: Path, early: str) -> None:
    def work(cluster: Cluster, node: ServerNode) -> None:
        cluster.check_access()
        Connection("127.0.0.1", node.listeners["CONTROLLER"].port, timeout=10).close()

    with_node(config(tmp_path, **ACLS, **{EARLY: early}), work)
