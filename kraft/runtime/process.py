"""A node as this process: its loop, its signals, its descriptors; from the start to its exit."""

import asyncio
import gc
import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import uvloop

from kraft.config.node import NodeConfig
from kraft.runtime.cluster_id import StoppedAtStartError
from kraft.runtime.descriptors import raise_limit
from kraft.runtime.server import Listener
from kraft_native.errors import KraftError

log = logging.getLogger(__name__)

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
START_SECONDS_MAX: Final = 365 * 86_400.0
NOT_FOR_OTHERS: Final = 0o027
START_TIME_FIELD: Final = 19  # of /proc/self/stat, counted behind the command's name
NEVER: Final = 2**31 - 1
"""So many collections of the middle generation before one of all: the server has those."""


class NodeFailedError(KraftError):
    """The node could not start, or stopped by a fault; the message says why."""


class AnyNode(Protocol):
    """A node of whatever roles."""

    config: NodeConfig
    cluster_id: str
    listeners: dict[str, Listener]

    async def start(self) -> None: ...

    async def run(self) -> None: ...

    def stop(self) -> None: ...


def make_node(config: NodeConfig) -> AnyNode:
    """The node that the roles ask for."""
    # Imported only now: each kind loads what the other does not need.
    if config.is_broker:
        from kraft.runtime.node import Node
        return Node(config)
    from kraft.runtime.controller_node import ControllerNode
    return ControllerNode(config)


def run_node(config: NodeConfig, on_ready: Callable[[AnyNode], None],
             new_loop: Callable[[], uvloop.Loop] = uvloop.new_event_loop) -> None:
    """Runs a node until SIGTERM or SIGINT, then stops it in good order; `on_ready(node)` is called when it serves.

    What a start made stays, so the garbage collector looks at it neither then nor later: with 1,300 topics a full
    collection stopped the loop for 23 ms.

    Raises what the start raised when that is a `KraftError`, else `NodeFailedError`.
    """
    raise_limit()
    # Records of users, and keys of theirs in the metadata log, are not for every account of the machine.
    before = os.umask(NOT_FOR_OTHERS)
    try:
        uvloop.run(_run(config, on_ready), loop_factory=new_loop)
    finally:
        os.umask(before)


async def _run(config: NodeConfig, on_ready: Callable[[AnyNode], None]) -> None:
    gc.disable()
    _tell_without_effect(config)
    node = make_node(config)
    loop = asyncio.get_running_loop()
    for each in STOP_SIGNALS:
        loop.add_signal_handler(each, node.stop)
    try:
        try:
            await _start(node, config.integer("server.max.startup.time.ms"))
        except StoppedAtStartError as error:
            log.warning("%s", error)
            return
        gc.freeze()
        # A full collection looks at all that requests hold just now; the server has one when nobody waits for it.
        gc.set_threshold(*gc.get_threshold()[:2], NEVER)
        gc.enable()
        on_ready(node)
        await _serve(node)
    finally:
        for each in STOP_SIGNALS:
            loop.remove_signal_handler(each)       # a closed loop of uvloop's would go on swallowing them


async def _serve(node: AnyNode) -> None:
    try:
        await node.run()
    except KraftError:
        raise
    except Exception as error:
        raise NodeFailedError(f"the node stopped: {type(error).__name__}: {error}") from error


def _tell_without_effect(config: NodeConfig) -> None:
    for text in config.warnings:
        log.warning("%s", text)


async def _start(node: AnyNode, timeout_ms: int) -> None:
    try:
        async with asyncio.timeout(min(timeout_ms / 1000, START_SECONDS_MAX)) as limit:
            await node.start()
    except TimeoutError as error:
        if not limit.expired():
            raise NodeFailedError(f"the node cannot start: {_reason(error)}") from error
        raise NodeFailedError(f"the node did not start within {timeout_ms} ms (server.max.startup.time.ms)") from error
    except OSError as error:
        raise NodeFailedError(f"the node cannot start: {_reason(error)}") from error


def seconds_since_start() -> float:
    """How long this process has existed, to a hundredth: the interpreter's own start counts too."""
    fields = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    began = int(fields[START_TIME_FIELD]) / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began)


def _reason(error: OSError) -> str:
    named = f"{error.filename}: " if error.filename else ""
    return f"{named}{error.strerror or error}"
