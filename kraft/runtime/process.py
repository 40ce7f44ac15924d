"""A node as this process: its loop, its signals, its descriptors; from the start to its exit."""

import asyncio
import gc
import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import uvloop

from kraft.broker.apis import import_steps
from kraft.config.node_config import NodeConfig
from kraft.runtime.any_node import AnyNode
from kraft.runtime.base.descriptors import raise_limit
from kraft.runtime.base.log_file import log_settings
from kraft.runtime.base.service_manager import ServiceManager
from kraft.runtime.quorum.cluster_id import StoppedAtStartError
from kraft.steps import finish
from kraft_native.base.errors import KraftError

log = logging.getLogger(__name__)

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
START_SECONDS_MAX: Final = 365 * 86_400.0
NOT_FOR_OTHERS: Final = 0o027
START_TIME_FIELD: Final = 19  # of /proc/self/stat, counted behind the command's name


class NodeFailedError(KraftError):
    """The node could not start, or stopped by a fault; the message has the reason."""


def make_node(config: NodeConfig) -> AnyNode:
    """Create the node for the configured roles."""
    # Imported here: each kind loads what the other does not need.
    if config.is_broker:
        from kraft.runtime.server_node import ServerNode
        return ServerNode(config)
    from kraft.runtime.controller_node import ControllerNode
    return ControllerNode(config)


def import_all() -> None:
    """Import now what a node otherwise imports after its start, for a process that forks nodes."""
    finish(import_steps())
    import_module("kraft.runtime.replicas.share_persister")
    import_module("kraft.runtime.replicas.share_partitions")


def run_node(config: NodeConfig, on_ready: Callable[[AnyNode], None],
             new_loop: Callable[[], uvloop.Loop] = uvloop.new_event_loop) -> None:
    """Run a node until SIGTERM or SIGINT, then stop it gracefully; `on_ready(node)` is called when it serves.

    The interpreter's automatic garbage collections stay off (`kraft.runtime.base.garbage`). Objects from the start live
    on, so no collection examines them: with 1,300 topics a full one stopped the loop for 23 ms.

    Raises the error of the start when that is a `KraftError`, else `NodeFailedError`.
    """
    raise_limit()
    service = ServiceManager.of(os.environ)
    # Records of users, and their keys in the metadata log, are not for every account of the machine.
    before = os.umask(NOT_FOR_OTHERS)
    try:
        with ExitStack() as opened:
            try:
                opened.enter_context(log_settings(config))
            except OSError as error:
                raise NodeFailedError(f"kraft.log.file: {_reason(error)}") from error
            uvloop.run(_run(config, on_ready, service), loop_factory=new_loop)
    finally:
        os.umask(before)


async def _run(config: NodeConfig, on_ready: Callable[[AnyNode], None], service: ServiceManager | None) -> None:
    gc.disable()                       # `GarbageSchedule` collects
    _warn_of_settings_without_effect(config)
    node = make_node(config)
    node.service = service
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(partial(_failed_in, node))
    for each in STOP_SIGNALS:
        loop.add_signal_handler(each, node.stop)
    loop.add_signal_handler(signal.SIGHUP, node.reload)
    try:
        try:
            await _start(node, config.integer("server.max.startup.time.ms"))
        except StoppedAtStartError as error:
            log.warning("%s", error)
            return
        gc.freeze()
        on_ready(node)
        await _serve(node)
    finally:
        for each in (*STOP_SIGNALS, signal.SIGHUP):
            loop.remove_signal_handler(each)       # a closed uvloop would continue to swallow them


def _failed_in(node: AnyNode, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle an error that a callback of the loop has raised. The node stops: a timer that is not set again, or waiters
    that were not woken, would leave it waiting without a limit.

    Errors of one connection come without a handle. An error of the system, as for lack of descriptors, is no fault of
    our own: a new connection may meet it."""
    loop.default_exception_handler(context)
    error = context.get("exception")
    if "handle" in context and isinstance(error, Exception) and not isinstance(error, OSError):
        node.fail(error)


async def _serve(node: AnyNode) -> None:
    try:
        await node.run()
    except KraftError:
        raise
    except Exception as error:
        raise NodeFailedError(f"the node stopped: {type(error).__name__}: {error}") from error


def _warn_of_settings_without_effect(config: NodeConfig) -> None:
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
    """Age of this process, to a hundredth of a second: the interpreter's own start counts too."""
    fields = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    began = int(fields[START_TIME_FIELD]) / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began)


def _reason(error: OSError) -> str:
    named = f"{error.filename}: " if error.filename else ""
    return f"{named}{error.strerror or error}"
