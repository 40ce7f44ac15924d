"""Links between nodes, each in one direction, and what happens to a message on its way.

A message is a request or the answer to one. The sender of a request to an unreachable node may receive `Lost`, as after
a refused or broken connection, or nothing until its time-out. An answer reaches only the process that sent the request:
a connection does not outlive its process.

An address that a node has left has no listener, unless another node now has it. A connection to it is refused at once,
refused after some time, or never answered.
"""

from collections import Counter
from random import Random
from typing import Final, NamedTuple, Protocol

from kraft.raft.messages import DiscoverRequest, FetchResponse, Loss, Lost, Message, Request, VoteRequest
from kraft.raft.types import Endpoint
from kraft.testing.sim.batches import Records
from kraft.testing.sim.chance import below, happens
from kraft.testing.sim.loop import Loop
from kraft.testing.sim.options import MILLISECOND, Options

CLIENT_ID = 1000
"""Lowest id of clients and operators. Nothing cuts them off."""


NOWHERE: Final = -1
"""Target of messages to an address that no node has. The next two are such addresses that refuse late, and that never
answer."""
SLOWLY: Final = -2
NO_ANSWER: Final = -3


class Envelope(NamedTuple):
    """A message under way. `requester`, `life`: the process that sent the request, and which of its lives. `called`:
    the id under which it addressed `target`. `correlation`: that of the request."""

    requester: int
    life: int
    target: int
    called: int
    correlation: int
    message: Message
    is_answer: bool


class Station(Protocol):
    """A participant in the network."""

    knows_pre_vote: bool

    @property
    def life(self) -> int: ...

    @property
    def is_up(self) -> bool: ...

    def receive(self, envelope: Envelope) -> None: ...


class Network:
    def __init__(self, loop: Loop, options: Options, random: Random, counts: Counter[str]) -> None:
        self._loop = loop
        self.options = options
        self._random = random
        self._counts = counts
        self.stations: dict[int, Station] = {}
        self.names: dict[str, int] = {}
        """Node ids by host name, as a name service resolves them."""
        self._listeners: dict[Endpoint, int] = {}
        self._left: dict[Endpoint, int] = {}
        """Addresses without a listener, and the outcome of a connection to each."""
        self._cuts: Counter[tuple[int, int]] = Counter()
        self._hangs: Counter[tuple[int, int]] = Counter()
        self._is_healed = False

    # --- addresses ---------------------------------------------------------------------------------------------------

    def listen(self, node_id: int, endpoint: Endpoint) -> None:
        """Give the node this address, and only this one."""
        for each in [each for each in self._listeners if self._listeners[each] == node_id]:
            del self._listeners[each]
        self._listeners[endpoint] = node_id

    def at(self, endpoint: Endpoint) -> int:
        """Return the node that a connection to this address or name reaches, or one of NOWHERE, SLOWLY, NO_ANSWER."""
        node_id = self.names.get(endpoint.host, self._listeners.get(endpoint))
        if node_id is not None:
            return node_id
        if endpoint not in self._left:
            odds = self._random.randrange(1000)
            is_unresponsive = odds < self.options.silent_address_per_mille
            is_slow = odds < self.options.silent_address_per_mille + self.options.slow_address_per_mille
            self._left[endpoint] = NO_ANSWER if is_unresponsive else SLOWLY if is_slow else NOWHERE
        return self._left[endpoint]

    # --- links -------------------------------------------------------------------------------------------------------

    def cut(self, source: int, target: int) -> None:
        """Cut a link in one direction. A link that was cut twice must be healed twice."""
        if not self._is_healed:
            self._cuts[source, target] += 1

    def heal(self, source: int, target: int) -> None:
        if self.is_cut(source, target):
            self._cuts[source, target] -= 1

    def hang(self, source: int, target: int, change: int) -> None:
        """Let the quorum's connections in that direction hang (1), or stop that (-1). Other connections between the two
        hosts work."""
        if not self._is_healed:
            self._hangs[source, target] += change

    def heal_all(self) -> None:
        """Heal all links for good: later cuts have no effect."""
        self._is_healed = True
        self._cuts.clear()
        self._hangs.clear()

    def is_cut(self, source: int, target: int) -> bool:
        return bool(self._cuts) and self._cuts.get((source, target), 0) > 0

    def _is_closed(self, source: int, target: int) -> bool:
        return self.is_cut(source, target) or (bool(self._hangs) and self._hangs.get((source, target), 0) > 0)

    # --- messages ----------------------------------------------------------------------------------------------------

    def send_request(self, envelope: Envelope, request: Request) -> None:
        requester, target = envelope.requester, envelope.target
        station = self.stations.get(target)
        is_new = isinstance(request, DiscoverRequest) or (isinstance(request, VoteRequest) and request.pre_vote)
        if is_new and not self._both_know_pre_vote(requester, target):
            self._counts["pre-vote unsupported"] += isinstance(request, VoteRequest)
            self._report_lost(envelope, Loss.UNSUPPORTED)
        elif target < 0:
            self._counts["message to an address without a listener"] += 1
            if target == SLOWLY:
                self._loop.after(self._random.randrange(1 + self.options.slow_address_ms * MILLISECOND),
                                 self._report_lost, envelope, Loss.DISCONNECTED)
            elif target == NOWHERE:
                self._report_lost(envelope, Loss.DISCONNECTED)
        elif station is None or not station.is_up:
            self._refuse(envelope)
        else:
            self._carry(requester, target, envelope)

    def answer(self, question: Envelope, response: Message) -> None:
        self._carry(question.target, question.requester, question._replace(message=response, is_answer=True))

    def break_connections(self, target: int, requests: list[Envelope]) -> None:
        """Break the connections to `target`, whose process has died. `requests`: unanswered requests of another
        node."""
        for envelope in requests:
            if envelope.target == target:
                self._refuse(envelope)

    def _both_know_pre_vote(self, requester: int, target: int) -> bool:
        station = self.stations.get(target)
        return self.stations[requester].knows_pre_vote and (station is None or station.knows_pre_vote)

    def _refuse(self, envelope: Envelope) -> None:
        if self._chance(self.options.refuse_per_mille):
            self._report_lost(envelope, Loss.DISCONNECTED)

    def _report_lost(self, envelope: Envelope, loss: Loss) -> None:
        lost = envelope._replace(message=Lost(loss), is_answer=True)
        self._loop.after(1 + self._delay_us(), self._arrive, envelope.target, envelope.requester, lost)

    def _carry(self, source: int, target: int, envelope: Envelope) -> None:
        options = self.options
        if source < CLIENT_ID and target < CLIENT_ID:
            if self._is_closed(source, target):
                self._counts["message cut"] += 1
                if not envelope.is_answer:
                    self._refuse(envelope)
                return
            if self._chance(options.drop_per_mille):
                self._counts["message dropped"] += 1
                return
            envelope = self._damage(envelope)
        delay_us = self._delay_us()
        if self._chance(options.late_per_mille):
            self._counts["message late"] += 1
            delay_us += self._random.randrange(options.late_ms * MILLISECOND + 1)
        self._loop.after(delay_us, self._arrive, source, target, envelope)
        if self._chance(options.duplicate_per_mille):
            self._counts["message duplicated"] += 1
            self._loop.after(delay_us + self._random.randrange(1 + 2 * delay_us + 100 * MILLISECOND),
                             self._arrive, source, target, envelope)

    def _damage(self, envelope: Envelope) -> Envelope:
        message = envelope.message
        if (self.options.damage_per_mille and isinstance(message, FetchResponse)
                and isinstance(message.records, Records) and self._chance(self.options.damage_per_mille)):
            self._counts["records damaged"] += 1
            damaged = FetchResponse(
                epoch=message.epoch, leader_id=message.leader_id, leader_endpoints=message.leader_endpoints,
                high_watermark=message.high_watermark, log_start_offset=message.log_start_offset,
                records=message.records._replace(is_damaged=True), not_follower=message.not_follower)
            return envelope._replace(message=damaged)
        return envelope

    def _arrive(self, source: int, target: int, envelope: Envelope) -> None:
        """Deliver a message, unless its link is cut or its receiver is down. A cut also stops messages that are under
        way."""
        station = self.stations.get(target)
        if station is None or not station.is_up:
            if not envelope.is_answer:
                self._refuse(envelope)
            return
        if envelope.is_answer and station.life != envelope.life:
            return
        if self._is_closed(source, target) and not isinstance(envelope.message, Lost):
            self._counts["message cut"] += 1
            return
        self._counts["messages"] += 1
        station.receive(envelope)

    def _delay_us(self) -> int:
        options = self.options
        return options.delay_ms * MILLISECOND + below(self._random, options.jitter_ms * MILLISECOND + 1)

    def _chance(self, per_mille: int) -> bool:
        return happens(self._random, per_mille)
