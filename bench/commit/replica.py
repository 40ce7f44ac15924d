"""One controller as `kraft server start` runs it, with the bench's state machine, which proposes opaque records.

    python -m bench.commit.replica --data DIR --set name=value ...

Listener, peers, core, log, flusher and files are those of the product, formatted by `kraft storage format`. Only the
parts that decide about topics and replay their records are removed, so that only consensus is measured.

Standard output has a line of JSON for each event: `ready` with the port for proposals, `leads` at the first commit of
an epoch, `measured`. Standard input accepts orders, one line of JSON each: {"bytes", "in_flight", "seconds"}. The
leader then keeps that many proposals in flight and reports the result. Clients may propose as well, see `Front`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import struct
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any, Final, cast

import click

from bench.commit.load import Latencies
from kraft.cli.options import server_config_options
from kraft.cli.server_config import server_config
from kraft.raft.errors import NotLeaderError
from kraft.raft.ready import Leadership
from kraft.raft.transitions import Role
from kraft.raft.types import OffsetAndEpoch
from kraft.runtime.any_node import AnyNode
from kraft.runtime.base import log_output
from kraft.runtime.controller_node import ControllerNode
from kraft.runtime.process import run_node
from kraft.runtime.quorum.raft_log import Proposal

LENGTH: Final = struct.Struct(">I")


def report(**fields: object) -> None:
    """Print one event. Times are of the monotonic clock, which all processes share."""
    print(json.dumps({**fields, "at": time.monotonic()}), flush=True)


class Proposer:
    """State machine that counts committed records, answers clients, and keeps a window of its own proposals full."""

    def __init__(self, node: ControllerNode) -> None:
        self.driver = node.parts.quorum.driver
        self.driver.machine = self
        self._node_id = node.config.node_id
        self._leading: Leadership | None = None
        self._high_watermark = 0
        self._established = False
        self._waiting: deque[tuple[int, Front, int]] = deque()   # end offset, proposer, count
        self._own: deque[tuple[int, int, int]] = deque()         # end offset, count, time
        self._payload = b""
        self._latencies = Latencies()
        self._began_ns = self._until_ns = 0
        self._measures = False

    # --- StateMachine

    def installed(self, snapshot: OffsetAndEpoch) -> None:
        raise RuntimeError(f"a snapshot, {snapshot}, in a run that makes none")

    def committed(self, end_offset: int) -> None:
        self._high_watermark = end_offset
        self._establish()
        waiting, own = self._waiting, self._own
        while waiting and waiting[0][0] <= end_offset:
            end, front, count = waiting.popleft()
            front.committed(end, count)
        if own and own[0][0] <= end_offset:
            self._own_committed(end_offset)

    def leadership(self, leadership: Leadership) -> None:
        leads = leadership.role is Role.LEADER
        if not leads:
            for _, front, _ in self._waiting:
                front.close()
            self._waiting.clear()
            self._own.clear()
            self._measures = False
        if not leads or self._leading is None or self._leading.epoch != leadership.epoch:
            self._established = False
        self._leading = leadership if leads else None
        if leadership.role is Role.FOLLOWER:
            report(event="follows", node=self._node_id, leader=leadership.leader_id, epoch=leadership.epoch)
        self._establish()

    def _establish(self) -> None:
        leading = self._leading
        if leading is not None and not self._established and self._high_watermark > leading.epoch_start:
            self._established = True
            report(event="leads", node=self._node_id, epoch=leading.epoch)

    def propose(self, payloads: list[bytes]) -> int:
        """Propose the payloads and return the log end behind them. Raises `NotLeaderError` on a node that does not
        lead."""
        if self._leading is None:
            raise NotLeaderError("this node does not lead")
        return self.driver.propose(Proposal(payloads, time.time_ns() // 1_000_000), self._leading.epoch)

    def enqueue(self, payloads: list[bytes], front: Front) -> None:
        self._waiting.append((self.propose(payloads), front, len(payloads)))

    # --- a window of its own

    def order(self, size: int, in_flight: int, seconds: float) -> None:
        """Keep `in_flight` proposals in flight for that time, then report rate and latencies."""
        self._payload = os.urandom(size)
        self._latencies = Latencies()
        self._measures = True
        gc.collect()
        gc.freeze()
        self._began_ns = time.perf_counter_ns()
        self._until_ns = self._began_ns + int(seconds * 1e9)
        self._propose_own(in_flight)

    def _propose_own(self, count: int) -> None:
        now_ns = time.perf_counter_ns()
        self._own.append((self.propose([self._payload] * count), count, now_ns))

    def _own_committed(self, end_offset: int) -> None:
        now_ns, own, done = time.perf_counter_ns(), self._own, 0
        while own and own[0][0] <= end_offset:
            _, count, began_ns = own.popleft()
            self._latencies.add(now_ns - began_ns, count)
            done += count
        if now_ns < self._until_ns:
            self._propose_own(done)
        elif self._measures and not own:
            self._measures = False
            report(event="measured", node=self._node_id, **self._latencies.summary(now_ns - self._began_ns))


class Front(asyncio.Protocol):
    """Protocol for clients that propose. A record is its length in four bytes and its content. The answer is its offset
    in eight bytes, in order, once it is committed. The connection is closed when this node does not lead."""

    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        data = self._received + data if self._received else data
        payloads, position, size = [], 0, len(data)
        while position + 4 <= size:
            end = position + 4 + LENGTH.unpack_from(data, position)[0]
            if end > size:
                break
            payloads.append(data[position + 4:end])
            position = end
        self._received = data[position:]
        if not payloads:
            return
        try:
            self._proposer.enqueue(payloads, self)
        except NotLeaderError:
            self.close()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - the cause does not matter
        self._transport = None

    def committed(self, end_offset: int, count: int) -> None:
        """Answer the client's `count` oldest unanswered records, which end at `end_offset`."""
        if self._transport is not None:
            self._transport.write(struct.pack(f">{count}q", *range(end_offset - count, end_offset)))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Orders:
    """Reader of standard input; the process ends with it."""

    def __init__(self, proposer: Proposer, node: AnyNode) -> None:
        self._proposer = proposer
        self._node = node
        self._received = b""
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)

    def _read(self) -> None:
        data = os.read(sys.stdin.fileno(), 1 << 16)
        if not data:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._node.stop()
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            order: dict[str, Any] = json.loads(line)
            try:
                self._proposer.order(order["bytes"], order["in_flight"], order["seconds"])
            except BaseException:
                self._node.stop()
                raise


@click.command()
@server_config_options
def main(file: Path | None, data: Path | None, assignments: tuple[str, ...]) -> None:
    """Run one replica until standard input ends."""
    log_output.set_up("warning", "text")
    keep: list[object] = []

    def ready(node: AnyNode) -> None:
        proposer = Proposer(cast("ControllerNode", node))
        keep.append(asyncio.get_running_loop().create_task(_serve(proposer, node)))

    run_node(server_config(file, data, None, assignments), ready)


async def _serve(proposer: Proposer, node: AnyNode) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Front(proposer), "127.0.0.1", 0)
    Orders(proposer, node)
    report(event="ready", node=node.config.node_id, port=server.sockets[0].getsockname()[1])


if __name__ == "__main__":
    main()
