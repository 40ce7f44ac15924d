"""Pending requests: one for each node at a time, as between Kafka's controllers."""

from typing import Final

from kraft.deadlines import NEVER_MS
from kraft.raft.messages import FetchRequest, Request
from kraft.structs import mutable

SLOWNESS_MAX: Final = 2


@mutable
class _Peer:
    correlation: int = -1
    request: Request | None = None
    due_ms: int = 0
    expires_ms: int = 0
    wait_until_ms: int = 0
    is_answered: bool = True


def _held_ms(request: Request) -> int:
    """Return how long the receiver may hold its answer."""
    return request.max_wait_ms if isinstance(request, FetchRequest) else 0


class Requests:
    """Pending requests by node. Correlation ids are unique in the life of this object, so an answer to a request that
    was given up is recognised by its id and ignored."""

    def __init__(self, timeout_ms: int, backoff_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._peers: dict[int, _Peer] = {}
        self._slow: dict[int, int] = {}
        """Number of consecutive late answers of a node, up to the maximum that matters."""
        self._last_correlation = 0

    def sent(self, node_id: int, request: Request, now_ms: int, timeout_ms: int | None = None) -> int:
        """Register a request that is sent; return its correlation id. `timeout_ms`: how long to wait for its answer, if
        that is shorter than usual."""
        self._last_correlation += 1
        timeout_ms = self._timeout_ms if timeout_ms is None else min(timeout_ms, self._timeout_ms)
        self._peers[node_id] = _Peer(
            self._last_correlation, request, now_ms + _held_ms(request), now_ms + timeout_ms, is_answered=False)
        return self._last_correlation

    def finish(self, node_id: int, correlation: int) -> Request | None:
        """Finish a request whose answer came or never will; return it, or None when it is no longer pending."""
        peer = self._peers.get(node_id)
        if peer is None or peer.correlation != correlation:
            return None
        request, peer.request, peer.is_answered = peer.request, None, True
        return request

    def pending(self, node_id: int) -> tuple[int, Request] | None:
        """Return the correlation id and the request that the node has not answered; None when there is none."""
        peer = self._peers.get(node_id)
        return None if peer is None or peer.request is None else (peer.correlation, peer.request)

    def slow_down(self, node_id: int) -> None:
        """Record that the node has not answered in time."""
        self._slow[node_id] = min(self.slowness(node_id) + 1, SLOWNESS_MAX)

    def speed_up(self, node_id: int, now_ms: int, patience_ms: int) -> None:
        """Record that the node has answered; it counts as slow no longer if the answer was in time."""
        peer = self._peers.get(node_id)
        if peer is not None and now_ms - peer.due_ms < patience_ms:
            self._slow.pop(node_id, None)

    def slowness(self, node_id: int) -> int:
        return self._slow.get(node_id, 0)

    def is_under_way(self, node_id: int, now_ms: int) -> bool:
        """Return whether an answer of this node is expected."""
        peer = self._peers.get(node_id)
        return peer is not None and peer.request is not None and peer.expires_ms > now_ms

    def unanswered(self, now_ms: int, patience_ms: int) -> list[int]:
        """Return the nodes whose answer to the last request is overdue by `patience_ms` or more, whether that expired
        or not."""
        return [node_id for node_id, peer in self._peers.items()
                if not peer.is_answered and now_ms - peer.due_ms >= patience_ms]

    def forget(self, node_id: int) -> None:
        """Give up the node's request; the next may be sent at once."""
        self._peers.pop(node_id, None)

    def back_off(self, node_id: int, now_ms: int, backoff_ms: int | None = None) -> None:
        """Delay the next request to a node whose last answer was of no use."""
        backoff_ms = self._backoff_ms if backoff_ms is None else backoff_ms
        self._peers.setdefault(node_id, _Peer()).wait_until_ms = now_ms + backoff_ms

    def ready_ms(self, node_id: int, now_ms: int) -> int:
        """Return when a request may be sent to the node: `now_ms` or less means now. A request that expired is given
        up."""
        peer = self._peers.get(node_id)
        if peer is None:
            return now_ms
        if peer.request is not None and peer.expires_ms <= now_ms:
            peer.request = None
        return peer.wait_until_ms if peer.request is None else peer.expires_ms

    def deadline_ms(self, now_ms: int) -> int:
        """Return when the next request expires, or the next node's back-off ends."""
        deadline_ms = NEVER_MS
        for peer in self._peers.values():
            time_ms = peer.wait_until_ms if peer.request is None else peer.expires_ms
            if now_ms < time_ms < deadline_ms:
                deadline_ms = time_ms
        return deadline_ms

    def reset(self) -> None:
        """Give up all requests after a change of role; the next may be sent to any node at once."""
        self._peers.clear()
