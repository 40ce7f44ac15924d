"""Directed graph with kinds of edges: its strongly connected components, and a short cycle in each. Linear time."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

STARTS_MAX: Final = 16
"""Vertices of a component from which a short cycle is searched."""


class Edge(NamedTuple):
    """An edge and what explains it."""

    source: int
    target: int
    kind: int
    label: tuple[int, ...] = ()


class Graph:
    """Edges of several kinds between numbered vertices. The kinds are bits; `mask` selects the kinds that a search
    follows."""

    def __init__(self, vertices: int) -> None:
        self.edges: list[Edge] = []
        self._outgoing: list[list[int]] = [[] for _ in range(vertices)]

    def add(self, source: int, target: int, kind: int, *label: int) -> None:
        self._outgoing[source].append(len(self.edges))
        self.edges.append(Edge(source, target, kind, label))

    def components(self, mask: int) -> list[list[int]]:
        """Return the strongly connected components that have a cycle."""
        left = self._cyclic_core(mask)
        return list(self._tarjan(mask, left)) if any(left) else []

    def cycle(self, component: Sequence[int], mask: int) -> list[Edge]:
        """Return a short cycle in a component."""
        best: list[Edge] = []
        inside = dict.fromkeys(component)
        step = max(1, len(component) // STARTS_MAX)
        for start in component[::step]:
            found = self._cycle_through(start, inside, mask)
            if not best or len(found) < len(best):
                best = found
        return best

    def _cyclic_core(self, mask: int) -> bytearray:
        """Mark the vertices that remain when vertices without an incoming edge are removed repeatedly. Without a
        cycle none remains, which is the usual case."""
        edges = self.edges
        degrees = array("q", bytes(8 * len(self._outgoing)))
        for edge in edges:
            if edge.kind & mask:
                degrees[edge.target] += 1
        left = bytearray(b"\1" * len(degrees))
        due = [vertex for vertex, degree in enumerate(degrees) if degree == 0]
        while due:
            vertex = due.pop()
            left[vertex] = 0
            for at in self._outgoing[vertex]:
                edge = edges[at]
                if edge.kind & mask:
                    degrees[edge.target] -= 1
                    if degrees[edge.target] == 0:
                        due.append(edge.target)
        return left

    def _targets(self, vertex: int, mask: int, left: bytearray) -> Iterator[int]:
        edges = self.edges
        for at in self._outgoing[vertex]:
            edge = edges[at]
            if edge.kind & mask and left[edge.target]:
                yield edge.target

    def _tarjan(self, mask: int, left: bytearray) -> Iterator[list[int]]:
        """Tarjan's algorithm without recursion, among the vertices that are left."""
        number: dict[int, int] = {}
        low: dict[int, int] = {}
        stack: list[int] = []
        on_stack = bytearray(len(left))
        for root in range(len(left)):
            if not left[root] or root in number:
                continue
            number[root] = low[root] = len(number)
            stack.append(root)
            on_stack[root] = 1
            work = [(root, self._targets(root, mask, left))]
            while work:
                vertex, targets = work[-1]
                target = next(targets, -1)
                if target >= 0:
                    if target not in number:
                        number[target] = low[target] = len(number)
                        stack.append(target)
                        on_stack[target] = 1
                        work.append((target, self._targets(target, mask, left)))
                    elif on_stack[target]:
                        low[vertex] = min(low[vertex], number[target])
                    continue
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[vertex])
                if low[vertex] == number[vertex]:
                    component = _pop_to(stack, on_stack, vertex)
                    if len(component) > 1:
                        yield component

    def _cycle_through(self, start: int, inside: dict[int, None], mask: int) -> list[Edge]:
        """Return the shortest cycle through a vertex of a component: breadth first."""
        reached_by: dict[int, Edge] = {}
        due = deque([start])
        while due:
            vertex = due.popleft()
            for at in self._outgoing[vertex]:
                edge = self.edges[at]
                if not edge.kind & mask or edge.target not in inside:
                    continue
                if edge.target == start:
                    return _path(reached_by, start, edge)
                if edge.target not in reached_by:
                    reached_by[edge.target] = edge
                    due.append(edge.target)
        return []


def _pop_to(stack: list[int], on_stack: bytearray, vertex: int) -> list[int]:
    component = []
    while True:
        component.append(stack.pop())
        on_stack[component[-1]] = 0
        if component[-1] == vertex:
            return component


def _path(reached_by: dict[int, Edge], start: int, last: Edge) -> list[Edge]:
    path = [last]
    while path[-1].source != start:
        path.append(reached_by[path[-1].source])
    return path[::-1]
