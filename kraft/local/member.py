"""Code of a forked process: a node, with an agent beside it."""

import faulthandler
import json
import os
import signal
import socket
import sys
import time
import uuid
from pathlib import Path

from kraft.config.node_config import NodeConfig
from kraft.local.agent import Agent
from kraft.local.spec import NodeSpec
from kraft.metadata.versions import LATEST
from kraft.protocol.ids import id_of
from kraft.raft.types import Endpoint, ReplicaKey
from kraft.raft.voters import Voter
from kraft.runtime import controller_node, server_node  # noqa: F401 - imported once, before any fork
from kraft.runtime.any_node import AnyNode
from kraft.runtime.base import log_output
from kraft.runtime.process import import_all, run_node
from kraft.runtime.storage.formatting import FormatRequest, format_storage
from kraft_native.base.errors import KraftError


def warm_up() -> None:
    """Do once what every node would repeat: read the tables of settings, and import what it may need later. All nodes
    of a launcher run the same code then, also those that start after a change of the sources."""
    import_all()
    NodeConfig({"process.roles": "broker,controller", "controller.listener.names": "CONTROLLER",
                "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}).integer("fetch.max.bytes")


def run_member(spec: NodeSpec, report_fd: int, agent_socket: int) -> int:
    """Run the node until it is stopped; return the exit code. `report_fd` gets one line when the node serves, and
    closes with the process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    log = os.open(spec.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    faulthandler.enable()
    log_output.set_up(spec.log_level, "text")

    def ready(running: AnyNode) -> None:
        listeners = {name: each.port for name, each in running.listeners.items()}
        os.write(report_fd, json.dumps({"cluster_id": running.cluster_id, "listeners": listeners}).encode() + b"\n")

    try:
        config = NodeConfig(spec.settings)
        format_directories(config, spec)
        agent = Agent(socket.socket(fileno=os.dup(agent_socket)), config.log_dirs[0], spec.host)
        agent.do_links(spec.deaf_to, spec.shut_to)
        agent.start()
        run_node(config, ready, agent.new_loop)
    except KraftError as error:
        sys.stderr.write(f"kraft: {error}\n")
        return 1
    return 0


def format_directories(config: NodeConfig, spec: NodeSpec) -> None:
    """Format the directories like `kraft storage format`, unless they are formatted."""
    if not spec.cluster_id:
        return
    name = config.controller_listener_names[0]
    voters = tuple(Voter(ReplicaKey(each.node_id, id_of(each.directory_id)), (Endpoint(name, each.host, each.port),))
                   for each in spec.voters) if config.is_controller else ()
    format_storage(FormatRequest(
        config.node_id, spec.cluster_id, tuple(map(Path, config.log_dirs)), (), config.metadata_log_dir,
        metadata_level=LATEST.level, standalone=False, initial_voters=voters), time.time_ns() // 1_000_000, uuid.uuid4)
