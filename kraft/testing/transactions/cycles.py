"""Judge of the order of transactions: G0, G1c, and both with the order of transactions that did not overlap.

The graph has an edge from one committed transaction to another:

    ww    its record is the next but one of the same transaction before a record of the other in a partition
    wr    the other has consumed a record of it
    rt    it had ended when the other began

Edges of time go through a chain of moments, one per end of a transaction, so their number is linear.

A broker appends records as they arrive, so the writes of overlapping transactions form cycles without a fault of
the cluster. `Cycles.permitted` counts those apart. Edges of reads alone never form a cycle: a transaction whose
records were consumed with read_committed had been decided before its consumer was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isinf
from typing import Final

from kraft.testing.transactions.anomaly import Anomaly
from kraft.testing.transactions.graph import Edge, Graph
from kraft.testing.transactions.history import History, transaction_of
from kraft.testing.transactions.index import Index

WRITE_ORDER: Final = 1
"""ww in a partition whose writers exclude each other."""
WRITE_OVERLAP: Final = 2
"""ww in any other partition."""
READ: Final = 4
TIME: Final = 8
LEVELS: Final = (
    ("G0", WRITE_ORDER), ("G0-realtime", WRITE_ORDER | TIME),
    ("G1c", WRITE_ORDER | READ), ("G1c-realtime", WRITE_ORDER | READ | TIME),
)
"""Kinds with the edges that they may have; a cycle is reported under the first that finds it."""
PERMITTED: Final = WRITE_ORDER | WRITE_OVERLAP | READ


@dataclass(slots=True)
class Cycles:
    """Cycles of a history. `permitted` is the number of components whose cycles need the write order of transactions
    that overlap."""

    anomalies: list[Anomaly] = field(default_factory=list)
    permitted: int = 0


def judge_cycles(index: Index) -> Cycles:
    """Find G0, G1c, G0-realtime and G1c-realtime: one cycle for each strongly connected component."""
    history, graph = index.history, graph_of(index)
    found = Cycles()
    reported: dict[int, None] = {}
    for kind, mask in LEVELS:
        for component in graph.components(mask):
            if not any(each in reported for each in component):
                reported.update(dict.fromkeys(component))
                found.anomalies.append(_anomaly(history, kind, graph.cycle(component, mask)))
    found.permitted = sum(not any(each in reported for each in component)
                          for component in graph.components(PERMITTED))
    return found


def graph_of(index: Index) -> Graph:
    """Return the graph of a history: a vertex for each transaction, then one for each moment."""
    graph = Graph(2 * len(index.history.transactions))
    _add_writes(graph, index)
    _add_reads(graph, index)
    _add_times(graph, index)
    return graph


def _add_writes(graph: Graph, index: Index) -> None:
    history = index.history
    for partition in range(len(history.partitions)):
        kind = WRITE_ORDER if partition < len(history.exclusive) and history.exclusive[partition] else WRITE_OVERLAP
        before, before_offset = -1, -1
        for offset, code in zip(*index.visible(partition), strict=True):
            number = transaction_of(code)
            if before not in (-1, number):
                graph.add(before, number, kind, partition, before_offset, offset)
            before, before_offset = number, offset


def _add_reads(graph: Graph, index: Index) -> None:
    count = len(index.committed)
    for number, transaction in enumerate(index.history.transactions):
        if not index.committed[number]:
            continue
        before = -1
        for partition, offset, code in transaction.inputs:
            source = transaction_of(code)
            if source not in (before, number) and 0 <= source < count and index.committed[source]:
                graph.add(source, number, READ, partition, offset)
                before = source


def _add_times(graph: Graph, index: Index) -> None:
    """Add the chain of moments. Vertex `count + number` is the moment at which a transaction had ended."""
    history = index.history
    count = len(history.transactions)
    events: list[tuple[float, int, int]] = []
    for number, transaction in enumerate(history.transactions):
        if index.committed[number]:
            events.append((transaction.began, 0, number))
            if not isinf(transaction.ended):
                events.append((transaction.ended, 1, number))
    moment = -1
    for _, is_end, number in sorted(events):
        if is_end:
            graph.add(number, count + number, TIME)
            if moment >= 0:
                graph.add(moment, count + number, TIME)
            moment = count + number
        elif moment >= 0:
            graph.add(moment, number, TIME)


def _anomaly(history: History, kind: str, cycle: list[Edge]) -> Anomaly:
    first = min((edge.source, place) for place, edge in enumerate(cycle))[1]
    cycle = cycle[first:] + cycle[:first]
    steps = list(_steps(history, cycle))
    return Anomaly(kind, "; ".join(text for _, text in steps), tuple(number for number, _ in steps))


def _steps(history: History, cycle: list[Edge]) -> Iterator[tuple[int, str]]:
    """Describe the edges of a cycle; a way through moments is one edge of time."""
    count = len(history.transactions)
    source = cycle[0].source
    for edge in cycle:
        if edge.target >= count:
            continue
        source_name, target_name = history.name(source), history.name(edge.target)
        if edge.kind == TIME:
            yield source, (f"{source_name} ended at {history.transactions[source].ended:.3f} s, {target_name} began at "
                           f"{history.transactions[edge.target].began:.3f} s")
        elif edge.kind == READ:
            yield source, f"{target_name} consumed the record of {source_name} at {history.place(*edge.label)}"
        else:
            partition, before, after = edge.label
            yield source, f"{source_name} wrote {history.place(partition, before)} before {target_name} wrote {after}"
        source = edge.target
