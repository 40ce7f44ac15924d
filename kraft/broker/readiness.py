"""Readiness of a node: should it be sent work, and what prevents it. A function of its state, without input and output.

    verdict = readiness(state)
    verdict.is_ready, verdict.reasons, verdict.warnings

Load balancers, probes and service managers follow the verdict (`kraft.runtime.metrics`). Each reason makes the node not
ready. A warning concerns a part of the node: the rest serves, and another node would not serve that part better.

Some reasons count only until the node was ready once since its broker was last fenced (`NodeState.was_ready`). A
restarted broker is ready when it is back in sync, so that a rolling restart may continue with the next one. A broker
that serves is not taken out of use by a follower that lags for a while, or by an election.
"""

from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Final

from kraft.structs import immutable

BEHIND_MS_MAX: Final = 5_000
"""Time that committed metadata may wait for its application."""
LEADERLESS_MS_MAX: Final = 10_000
"""Time without an active controller that a node which was ready may have: an election takes tenths of a second."""
NAMED_MAX: Final = 10
"""Number of directories or listeners that one text names."""
SAMPLES_MAX: Final = 256


class Phase(Enum):
    """Phase in the life of a node."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


@immutable
class QuorumSeen:
    """The metadata quorum as this node sees it.

    - `leader_id`: the last known leader, -1 for none; `is_answered`: that leader has answered within its time-out, or
      it is this node, and its controller is active.
    - `leads`: this node leads the quorum. `may_vote`: it is a controller; `is_voter`: the log has it as a voter.
    - `committed_end`, `applied_end`: end offsets of the metadata that is known to be committed, and of what this node
      has applied.
    - `other_cluster`: address of a controller that placed this node in another cluster; empty for none.
    """

    leader_id: int
    is_answered: bool
    leads: bool
    may_vote: bool
    is_voter: bool
    committed_end: int
    applied_end: int
    other_cluster: str = ""


@immutable
class BrokerSeen:
    """The broker of a node.

    - `is_registered`: its registration is in the metadata. `refusal`: why the controller refused its last request,
      empty when it did not.
    - `lease_left_ms`: see `Lease.left_ms`. `is_replaced`: another process has its id.
    - `logs`, `logs_open`: logs that need a recovery at this start, and those of them that are open.
    - `was_clean`: the last stop was clean.
    - `replicas_waiting`: replicas that are not open yet. `replicas_behind`: followers that are not in sync although
      their partition has a leader. Both are counted until the node was ready.
    - `coordinators_loading`: partitions of groups and transactions that are being loaded.
    - `offline_directories`: paths of the log directories that failed or could not be opened, of `directories` in all.
    - `replicas_failed`, `apply_faults`, `replicas_damaged`: numbers of replicas that cannot be served, of faults of
      committed metadata, and of replicas that have lost records.
    """

    is_registered: bool = False
    refusal: str = ""
    is_fenced: bool = True
    lease_left_ms: int | None = None
    is_replaced: bool = False
    logs: int = 0
    logs_open: int = 0
    was_clean: bool = True
    replicas_waiting: int = 0
    replicas_behind: int = 0
    coordinators_loading: int = 0
    offline_directories: tuple[str, ...] = ()
    directories: int = 1
    replicas_failed: int = 0
    apply_faults: int = 0
    replicas_damaged: int = 0


@immutable
class NodeState:
    """State of a node. `quorum` is None until the node has opened its directories, `broker` also on a node that has
    none.

    `leaderless_ms`: time since an active controller was last known. `behind_ms`: time since the oldest metadata that is
    not applied was known to be committed. `was_ready`: see the module. `unresponsive_ms`: time in which the node's loop
    did not answer; then the rest is the last known state.
    """

    phase: Phase
    failure: str = ""
    quorum: QuorumSeen | None = None
    broker: BrokerSeen | None = None
    ended_certificates: tuple[str, ...] = ()
    leaderless_ms: int = 0
    behind_ms: int = 0
    was_ready: bool = False
    unresponsive_ms: int = 0


@immutable
class Finding:
    """One fact about a node. `code` is stable and public: one of `REASONS` or `WARNINGS`. `text` may say more than
    every client should read."""

    code: str
    text: str


@immutable
class Verdict:
    """Findings about a node. It is ready when no reason speaks against it."""

    reasons: tuple[Finding, ...]
    warnings: tuple[Finding, ...]

    @property
    def is_ready(self) -> bool:
        return not self.reasons

    @property
    def text(self) -> str:
        """All reasons in one line; "ready" without one."""
        return "; ".join(each.text for each in self.reasons) or "ready"


REASONS: Final = {
    "failed": "a fault of the node itself, which ends",
    "stopping": "the node ends, and finishes what it has begun",
    "unresponsive": "the node's event loop does not answer",
    "starting": "the node has not finished its start",
    "other-cluster": "a controller places this node in another cluster, and no controller leads it",
    "no-active-controller": "no active controller is known, or it does not answer",
    "metadata-behind": "committed metadata is not applied for more than 5 s",
    "not-registered": "no controller has registered the broker",
    "replaced": "another process has registered under the broker's id",
    "fenced": "controllers have fenced the broker",
    "lease-ended": "no heartbeat of the broker was answered in time; controllers may have fenced it",
    "recovering-logs": "logs are recovered, n of m are open",
    "opening-replicas": "replicas are not open yet (until the node was ready once)",
    "replicas-behind": "replicas are not in sync yet (until the node was ready once)",
    "loading-coordinators": "groups and transactions are being loaded (until the node was ready once)",
    "offline-directories": "a log directory failed or could not be opened",
}
"""Codes of reasons, each with its meaning."""
WARNINGS: Final = {
    "not-a-voter": "the node is a controller, and the metadata log does not have it as a voter",
    "replicas-not-served": "some replicas cannot be opened or installed",
    "records-lost": "some replicas have lost records",
    "metadata-not-applied": "committed settings, quotas or features cannot be applied here",
    "certificate-ended": "the certificate of a listener has ended",
}
"""Codes of warnings, each with its meaning."""


def readiness(state: NodeState) -> Verdict:
    """Decide whether the node should be sent work."""
    return Verdict(tuple(_reasons(state)), tuple(_warnings(state)))


def is_settled(state: NodeState, verdict: Verdict) -> bool:
    """Return `was_ready` of the next state."""
    is_fenced = state.broker is not None and state.broker.is_fenced
    return verdict.is_ready or (state.was_ready and not is_fenced)


def _reasons(state: NodeState) -> Iterator[Finding]:
    if state.failure:
        yield Finding("failed", f"the node stops because of a fault of its own: {state.failure}")
    if state.phase is Phase.STOPPING and not state.failure:
        yield Finding("stopping", "the node is stopping")
    if state.unresponsive_ms:
        yield Finding("unresponsive", f"the event loop has not answered for {state.unresponsive_ms / 1000:.1f} s")
    if state.phase is Phase.STARTING:
        yield Finding("starting", "the node has not finished its start" if state.quorum is not None
                      else "the node opens its directories")
    if state.phase is Phase.STOPPING:
        return
    if state.quorum is not None:
        yield from _of_quorum(state, state.quorum)
    if state.broker is not None:
        yield from _of_broker(state, state.broker)


def _of_quorum(state: NodeState, quorum: QuorumSeen) -> Iterator[Finding]:
    if not quorum.is_answered and not (state.was_ready and state.leaderless_ms < LEADERLESS_MS_MAX):
        if quorum.other_cluster:
            yield Finding("other-cluster", f"the controller at {quorum.other_cluster} is of another cluster than this "
                                           "node")
        if quorum.leads:
            why = "this node leads the metadata quorum, and its controller is not active yet"
        elif quorum.leader_id >= 0:
            why = f"node {quorum.leader_id}, the last known leader of the metadata quorum, does not answer"
        else:
            why = "no leader of the metadata quorum is known"
        yield Finding("no-active-controller", why)
    if state.behind_ms > BEHIND_MS_MAX:
        count = quorum.committed_end - quorum.applied_end
        yield Finding("metadata-behind", f"{_count(count, 'committed record')} of the metadata, the oldest for "
                                         f"{state.behind_ms / 1000:.1f} s, {_are(count)} not applied")


def _of_broker(state: NodeState, broker: BrokerSeen) -> Iterator[Finding]:
    refused = f": {broker.refusal}" if broker.refusal else ""
    if broker.is_replaced:
        yield Finding("replaced", "another process has registered under this broker's id")
    elif not broker.is_registered:
        yield Finding("not-registered", f"no controller has registered the broker{refused}")
    elif broker.is_fenced:
        yield Finding("fenced", f"the broker is fenced{refused}")
    if broker.lease_left_ms is not None and broker.lease_left_ms < 0 and not broker.is_replaced:
        yield Finding("lease-ended", f"the broker's lease ended {-broker.lease_left_ms / 1000:.1f} s ago: no "
                                     f"controller answers its heartbeats{refused}")
    if broker.logs_open < broker.logs:
        why = "" if broker.was_clean else ", as the last stop was not clean"
        yield Finding("recovering-logs", f"logs are recovered{why}: {broker.logs_open} of {broker.logs} are open")
    if not state.was_ready:
        yield from _until_ready(broker)
    if count := len(broker.offline_directories):
        yield Finding("offline-directories", f"{count} of {_count(broker.directories, 'log directory')} "
                                             f"{_are(count)} offline: {_named(broker.offline_directories)}")


def _until_ready(broker: BrokerSeen) -> Iterator[Finding]:
    if count := broker.replicas_waiting:
        yield Finding("opening-replicas", f"{_count(count, 'replica')} {_are(count)} not open yet")
    if count := broker.replicas_behind:
        yield Finding("replicas-behind", f"{_count(count, 'replica')} {_are(count)} not in sync yet")
    if count := broker.coordinators_loading:
        yield Finding("loading-coordinators", f"{_count(count, 'partition')} of groups or transactions {_are(count)} "
                                              "being loaded")


def _warnings(state: NodeState) -> Iterator[Finding]:
    quorum, broker = state.quorum, state.broker
    if quorum is not None and quorum.may_vote and not quorum.is_voter:
        yield Finding("not-a-voter", "this controller is not a voter of the metadata quorum")
    if broker is not None:
        if count := broker.replicas_failed:
            yield Finding("replicas-not-served", f"{_count(count, 'replica')} cannot be served")
        if count := broker.replicas_damaged:
            yield Finding("records-lost", f"{_count(count, 'replica')} lost records")
        if count := broker.apply_faults:
            yield Finding("metadata-not-applied",
                          f"{_count(count, 'part')} of the committed metadata cannot be applied")
    if state.ended_certificates:
        yield Finding("certificate-ended", f"the certificate has ended of {_named(state.ended_certificates)}")


def _count(number: int, noun: str) -> str:
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else many}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _named(names: tuple[str, ...]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


class CommitAges:
    """Age of the oldest committed metadata that is not applied. It keeps samples of what was committed when, a bounded
    number."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque()     # end offset, time

    def note(self, committed_end: int, applied_end: int, now_ms: int) -> int:
        """Note a sample; both ends may go back, when the node begins again from a snapshot. Return the age in ms, 0
        when all is applied that was known."""
        samples = self._samples
        while samples and samples[-1][0] > committed_end:
            samples.pop()
        if committed_end > (samples[-1][0] if samples else applied_end) and len(samples) < SAMPLES_MAX:
            samples.append((committed_end, now_ms))
        while samples and samples[0][0] <= applied_end:
            samples.popleft()
        return now_ms - samples[0][1] if samples else 0
