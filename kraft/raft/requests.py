"""Requests that are under way: one for each node at a time, which is how Kafka's controllers talk to each other."""

from dataclasses import dataclass

from kraft.raft.messages import Request
from kraft.raft.types import NEVER_MS


@dataclass(slots=True)
class _Peer:
    correlation: int = -1
    request: Request | None = None
    expires_ms: int = 0
    wait_until_ms: int = 0


class Requests:
    """Correlation ids are unique in the life of this object, so an answer to a request that was given up is known by
    its id and ignored."""

    def __init__(self, timeout_ms: int, backoff_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._peers: dict[int, _Peer] = {}
        self._last_correlation = 0

    def sent(self, node_id: int, request: Request, now_ms: int) -> int:
        """A request leaves; gives its correlation id."""
        self._last_correlation += 1
        self._peers[node_id] = _Peer(self._last_correlation, request, now_ms + self._timeout_ms)
        return self._last_correlation

    def finish(self, node_id: int, correlation: int) -> Request | None:
        """An answer came; gives its request, None when nobody waits for it any more."""
        peer = self._peers.get(node_id)
        if peer is None or peer.correlation != correlation:
            return None
        request, peer.request = peer.request, None
        return request

    def under_way(self, node_id: int, correlation: int) -> Request | None:
        """What this node was asked by that id; None when nobody waits for the answer any more."""
        peer = self._peers.get(node_id)
        return None if peer is None or peer.correlation != correlation else peer.request

    def back_off(self, node_id: int, now_ms: int) -> None:
        """The node's last answer was of no use: it is asked again only after a while."""
        self._peers.setdefault(node_id, _Peer()).wait_until_ms = now_ms + self._backoff_ms

    def ready_ms(self, node_id: int, now_ms: int) -> int:
        """When the node may be asked: not later than `now_ms` means now. A request that expired is given up."""
        peer = self._peers.get(node_id)
        if peer is None:
            return now_ms
        if peer.request is not None and peer.expires_ms <= now_ms:
            peer.request = None
        return peer.wait_until_ms if peer.request is None else peer.expires_ms

    def deadline_ms(self, now_ms: int) -> int:
        """When the next request expires, or the next node may be asked again."""
        times = (peer.wait_until_ms if peer.request is None else peer.expires_ms for peer in self._peers.values())
        return min((time_ms for time_ms in times if time_ms > now_ms), default=NEVER_MS)

    def reset(self) -> None:
        """The role changed: answers to what was asked before are of no interest, and everybody may be asked at once."""
        self._peers.clear()
