"""Cost of a request with one record in the metadata log: three controllers of ours beside three of Apache Kafka 4.3.1.

Each request sets one user's quota to another value, over the wire, and is answered when that is committed. Both sides
are whole controllers with their defaults, 1 GiB of heap and two settings: no snapshot within a run, and for Kafka no
`controller.quorum.append.linger.ms`. With its default of 25 ms each commit of Kafka waits that long for more records;
ours is written at once whatever that setting says.

Both flush what they append, and neither has a setting for it. Kafka's (`KafkaRaftClient`) flush on the thread that
does everything else: a follower before its next Fetch, the leader after it has counted itself. Ours flush on a separate
thread, and the leader counts itself when its flush has ended.
"""

from __future__ import annotations

import io
import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Final

from bench.commit import clients
from bench.commit.load import Latencies
from bench.macro.servers import HEAP
from bench.table import Row
from kraft.client.connection import Connection
from kraft.client.refusals import check
from kraft.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from tests.peer.quorum import JAVA, OURS, JavaController, MixedQuorum, mixed_quorum

CONTROLLERS: Final = 3
IN_FLIGHT: Final = (1, 16, 64)
WARM_UP_TURNS: Final = 10
"""Turns during which Java compiles."""
SETTINGS: Final = {"metadata_log_max_record_bytes_between_snapshots": str(1 << 40),
                   "controller_quorum_append_linger_ms": "0"}
FLUSHES: Final = "ours and Kafka's flush every append on every controller; Kafka without its 25 ms of linger"

_VALUES: Final = itertools.count(1)
"""Values that are never set already: a repeated value would need no record."""


class QuotaClient:
    """One connection with one request at a time: Kafka reads the next one after it has answered the last."""

    def __init__(self, port: int) -> None:
        self._connection = Connection("127.0.0.1", port, timeout=clients.REPLY_SECONDS)
        self._version = self._connection.version(AlterClientQuotasRequest.API_KEY)
        self._request = AlterClientQuotasRequest()
        self._sent_ns = 0
        self.socket = self._connection.socket

    def send(self, count: int) -> None:
        assert count == 1, "more requests than connections"
        self._request = AlterClientQuotasRequest(validate_only=False, entries=[EntryData(
            entity=[EntityData(entity_type="user", entity_name="bench")],
            ops=[OpData(key="producer_byte_rate", value=float(next(_VALUES)))])])
        self._sent_ns = time.perf_counter_ns()
        self._connection.post(self._request, self._version)

    def receive(self, latencies: Latencies) -> int:
        answer = self._connection.answer(self._request, AlterClientQuotasResponse, self._version)
        latencies.add(time.perf_counter_ns() - self._sent_ns)
        check("quota", answer.entries[0].error_code, answer.entries[0].error_message)
        return 1


def rows(home: Path, seconds: float, turns: int, only: str) -> Iterator[Row]:
    """Start both quorums and load them alternately."""
    names = {in_flight: f"{CONTROLLERS} controllers, {in_flight} in flight, durable" for in_flight in IN_FLIGHT}
    wanted = {in_flight: name for in_flight, name in names.items() if only in name}
    if not wanted:
        return
    with ExitStack() as stack:
        ours, kafka = (_started(home / kind, kind, stack) for kind in (OURS, JAVA))
        for quorum in (ours, kafka):
            _load(quorum, IN_FLIGHT[-1], seconds * WARM_UP_TURNS)
        for in_flight, name in wanted.items():
            runs = [(_load(ours, in_flight, seconds), _load(kafka, in_flight, seconds)) for _ in range(turns)]
            for what, key, unit, better in (("p50", "p50_us", "us", "less"), ("rate", "per_s", "/s", "more")):
                row = Row.of_runs(f"{name}: {what}", unit, [(mine[key], others[key]) for mine, others in runs],
                                  limit_name="Kafka", better=better)
                row.note = FLUSHES
                yield row


def _started(home: Path, kind: str, stack: ExitStack) -> MixedQuorum:
    home.mkdir()
    with redirect_stdout(io.StringIO()):    # output of `kraft storage format`
        quorum = stack.enter_context(mixed_quorum(home, kind * CONTROLLERS, voters=None, **SETTINGS))
    for node in quorum.nodes.values():
        if isinstance(node, JavaController):
            node.heap, node.java_options = HEAP, ()  # the options there are for short-lived processes
    quorum.launch()
    quorum.commit(1)
    return quorum


def _load(quorum: MixedQuorum, in_flight: int, seconds: float) -> dict[str, float]:
    connect = partial(QuotaClient, quorum.leader.controller_port)
    return clients.run(connect, in_flight, seconds, connections_max=in_flight)
