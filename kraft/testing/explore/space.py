"""The states of an explored quorum and the transitions between them.

A state is a few numbers:

- one for each node;
- one for the messages of each node's exchanges;
- one for what is known about the truth (`sim.ledger`);
- one for the remaining budget of events.

An event changes one node, and its effect depends on nothing else. So the real core executes every event of every node
once, and the result is cached.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from typing import Any, NamedTuple

from kraft.raft.messages import AddVoterRequest, RemoveVoterRequest, Request
from kraft.raft.transitions import Role
from kraft.raft.types import ReplicaKey
from kraft.testing.explore.frozen import Chains, NodeId, Renaming, freeze, shape, thaw
from kraft.testing.explore.log import ExploredLog
from kraft.testing.explore.messages import Message, Wait, is_dead
from kraft.testing.explore.models import Budget, Model, voter
from kraft.testing.explore.node import Around, FrozenNode, Node, judge
from kraft.testing.explore.tables import Table
from kraft.testing.sim import invariants
from kraft.testing.sim.ledger import Ledger
from kraft.testing.sim.violation import ViolationError

ANY_TIME_MS = 1 << 40
NOTHING = -1
TIMEOUTS, CRASHES, LOSSES, DUPLICATES, REMINDERS, CHANGES, PROPOSALS = range(len(Budget._fields))


State = tuple[tuple[int, ...], tuple[int, ...], int, int]
"""Numbers in the tables of a `Space`: of the nodes, of the exchanges that each began (both in the order of ids), of the
ledger, and of the budget."""


class Event(NamedTuple):
    """An event at the node at `place`. `what` is a method of `Node`, and `argument` its argument; or it is the
    delivery, loss or duplication of the message with number `argument`. `choice`: one of the alternatives that the node
    has."""

    what: str
    place: int
    argument: Any = None
    choice: int = 0


class Effect(NamedTuple):
    """Effect of an event on the messages. `sent` is added. Messages of `node` to others than `awaited` become late,
    because it no longer waits for them. `awaited` is None when its process has ended."""

    node: NodeId
    sent: tuple[int, ...]
    awaited: tuple[NodeId, ...] | None


class Outcome:
    """Result of one event at one node, computed once. `reports`: calls for the ledger. `judged`: invariants that need
    more than the node."""

    __slots__ = ("effect", "has_reports", "is_beyond", "judged", "node", "number", "reports", "violation")

    def __init__(self, number: int, node: int, effect: int, *, is_beyond: bool = False, reports: tuple[Any, ...] = (),
                 judged: tuple[str, ...] = (), violation: ViolationError | None = None) -> None:
        self.number = number
        self.node = node
        self.effect = effect
        self.is_beyond = is_beyond
        self.reports = reports
        self.judged = judged
        self.has_reports = bool(reports or judged)
        self.violation = violation


class Move:
    """A possible event.

    - `cost`: the budget that it uses, an index, or NOTHING.
    - `outcomes`: the known ones, by the number of the node.
    - `taken`: the message that the event removes.
    - `places`: the nodes whose exchanges it may change, as long as the node learns of no epoch or leader.
    """

    __slots__ = ("cost", "event", "outcomes", "places", "taken")

    def __init__(self, event: Event, cost: int = NOTHING, taken: int = NOTHING, requester: int | None = None) -> None:
        self.event = event
        self.cost = cost
        self.taken = taken
        self.places = (event.place,) if requester in (None, event.place) else (event.place, requester)
        self.outcomes: dict[int, tuple[Outcome, ...]] = {}


class FoundError(Exception):
    """Violation that an event causes."""

    def __init__(self, event: Event, violation: ViolationError) -> None:
        super().__init__(str(violation))
        self.event = event
        self.violation = violation


class Space:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.chains = Chains()
        self.nodes: Table[FrozenNode] = Table()
        self.messages: Table[Message] = Table()
        self.exchanges: Table[tuple[int, ...]] = Table(
            lambda numbers, renaming: tuple(sorted(self.messages.renamed(each, renaming) for each in numbers)))
        self.ledgers: Table[Any] = Table()
        self.effects: Table[Effect] = Table()
        self.knowledge: Table[Any] = Table()
        self.logs: Table[Any] = Table()
        self.shapes: Table[Any] = Table()
        self.budgets: Table[Budget] = Table()
        self._places = tuple(range(len(model.ids)))
        self._around = Around(self.chains, model.queries_voters)
        self._configs = [model.config(node_id) for node_id in model.ids]
        self.steps = 0
        self._exchanges_after: dict[tuple[Any, ...], int] = {}
        self._ledgers_after: dict[tuple[int, ...], int | ViolationError] = {}
        self._durable: dict[tuple[int, ...], None] = {}
        self._renamings: dict[tuple[NodeId, ...], Renaming] = {}
        self._representatives: dict[tuple[int, ...], tuple[tuple[int, ...], list[Renaming]]] = {}
        self._facts: list[tuple[int, int, int]] = []
        self._knows: list[int] = []
        self._moves: dict[int, tuple[Move, ...]] = {}
        self._deliveries: dict[tuple[int, int], tuple[tuple[int, Move], ...]] = {}
        self._message_moves: dict[tuple[str, int], Move] = {}
        self._spent: dict[int, tuple[int, ...]] = {}
        self.first = self._calm(self._first()) if model.led else self._first()

    # --- the first state ---------------------------------------------------------------------------------------------

    def _first(self) -> State:
        model, numbers = self.model, []
        exchanges: tuple[int, ...] = ()
        for config in self._configs:
            node = Node(config, self._around)
            node.log = ExploredLog.opened(self.chains, model.records)
            node.log.watch = node._appended
            node.saved = model.hard_state
            node.boot()
            numbers.append(self._number(node))
            exchanges += (self.exchanges.number(tuple(sorted(self.messages.number(each) for each in node.sent))),)
        ledger = Ledger()
        log = ExploredLog.opened(self.chains, model.records)
        ledger.commits(log.batches, log.end.epoch, "the past")
        for batch in log.batches:
            ledger.appended(batch, "the past")
        return tuple(numbers), exchanges, self.ledgers.number(freeze(ledger)), self.budgets.number(model.budget)

    def _calm(self, state: State) -> State:
        """Return the state after node 1 has campaigned and, without faults, all nodes have committed its first record.
        The budget is unchanged."""
        state = self._happen(self.moves_of(state[0][0])[0], state[0][0], state, state[3])[0][1]
        return self.run_until(state, lambda nodes: all(
            each.hard_state.leader_id == 1 and each.applied > len(self.model.records) for each in nodes))

    def run_until(self, state: State, is_reached: Callable[[list[FrozenNode]], bool]) -> State:
        """Return the first state with such nodes in a run without faults: every flush ends and every message arrives.
        They take turns, because a node that learns nothing new from an answer repeats its request at once."""
        turns: Counter[int] = Counter()
        while True:
            nodes, exchanges, _, budget = state
            if is_reached([self.nodes.values[number] for number in nodes]):
                return state
            due = [(number, move) for number in nodes for move in self.moves_of(number) if move.event.what == "flushed"]
            due += [(nodes[place], move) for requester, exchange in enumerate(exchanges)
                    for place, move in self.deliveries_of(requester, exchange) if move.event.what == "deliver"]
            number, move = min(due, key=lambda each: (turns[each[1].taken], each[1].taken))
            turns[move.taken] += 1
            state = self._happen(move, number, state, budget)[0][1]

    def _number(self, node: Node) -> int:
        number = self.nodes.number(node.frozen())
        self.facts(number)
        return number

    def facts(self, number: int) -> tuple[int, int, int]:
        """Return three numbers for a node: of its knowledge about the leader, of its log, and of its shape."""
        while len(self._facts) <= number:
            frozen = self.nodes.values[len(self._facts)]
            self._facts.append((
                self.knowledge.number(frozen.hard_state), self.logs.number((frozen.id, frozen.log)),
                self.shapes.number(shape(frozen, frozen.id))))
            self._knows.append(self._facts[-1][0])
        return self._facts[number]

    # --- events ------------------------------------------------------------------------------------------------------

    def successors(self, state: State) -> Iterator[tuple[Event, State]]:
        """Yield every possible event and the state after it. Raises a `FoundError` when an event breaks an
        invariant."""
        nodes, exchanges, ledger, budget = state
        spent = self.spent(budget)
        for number in nodes:
            for move in self.moves_of(number):
                left = budget if move.cost == NOTHING else spent[move.cost]
                if left != NOTHING:
                    yield from self._happen(move, number, state, left)
        for requester, exchange in enumerate(exchanges):
            for place, move in self.deliveries_of(requester, exchange):
                left = budget if move.cost == NOTHING else spent[move.cost]
                if left == NOTHING:
                    continue
                if move.cost == DUPLICATES:
                    after = list(exchanges)
                    after[requester] = self._with_duplicate(exchange, move.event.argument)
                    yield move.event, (nodes, tuple(after), ledger, left)
                else:
                    yield from self._happen(move, nodes[place], state, left)

    def _happen(self, move: Move, number: int, state: State, budget: int) -> list[tuple[Event, State]]:
        known = move.outcomes.get(number)
        if known is None:
            known = move.outcomes[number] = self._carry_out(move.event, number)
        event, (nodes, exchanges, ledger, _) = move.event, state
        found = []
        for choice, outcome in enumerate(known):
            if outcome.violation is not None:
                raise FoundError(event._replace(choice=choice), outcome.violation)
            if outcome.is_beyond:
                continue
            after = (*nodes[:event.place], outcome.node, *nodes[event.place + 1:])
            ledger_after = ledger
            if outcome.has_reports:
                judged = self._ledger_after(ledger, outcome, after)
                if isinstance(judged, ViolationError):
                    raise FoundError(event._replace(choice=choice), judged)
                ledger_after = judged
            places = move.places if self._knows[number] == self._knows[outcome.node] else self._places
            exchanges_after = self._exchanges_of(exchanges, move.taken, outcome.effect, after, places)
            found.append((event._replace(choice=choice) if choice else event,
                          (after, exchanges_after, ledger_after, budget)))
        return found

    def spent(self, budget: int) -> tuple[int, ...]:
        """Return the remaining budget after one more event of each kind, by index, or NOTHING where none remains. A
        value is distinguished by the number of proposals before it: the first proposal is at PROPOSALS, the next one
        behind it, and so on."""
        known = self._spent.get(budget)
        if known is None:
            value, proposals = self.budgets.values[budget], self.model.budget.proposals
            left = [self.budgets.number(Budget(*[each - (place == index) for place, each in enumerate(value)]))
                    if value[index] else NOTHING for index in range(len(value))]
            after = left.pop()
            left += [after if value.proposals == proposals - before else NOTHING for before in range(proposals)]
            known = self._spent[budget] = tuple(left)
        return known

    def deliveries_of(self, requester: int, exchange: int) -> tuple[tuple[int, Move], ...]:
        """Return the possible events of the messages in an exchange, with the place of the node that each changes."""
        known = self._deliveries.get((requester, exchange))
        if known is None:
            moves: list[tuple[int, Move]] = []
            for each in self.exchanges.values[exchange]:
                message = self.messages.values[each]
                place = message.receiver - 1
                moves.append((place, self._message_move("deliver", place, each, NOTHING)))
                if message.wait is Wait.AWAITED and self.model.budget.losses:
                    moves.append((requester, self._message_move("lose", requester, each, LOSSES)))
                if message.wait is Wait.AWAITED and self.model.budget.duplicates and not message.is_answer:
                    moves.append((place, self._message_move("duplicate", place, each, DUPLICATES)))
            known = self._deliveries[requester, exchange] = tuple(moves)
        return known

    def _message_move(self, what: str, place: int, number: int, cost: int) -> Move:
        """Return the event of a message. It is the same in all exchanges that contain the message, because its outcomes
        are the same."""
        known = self._message_moves.get((what, number))
        if known is None:
            requester = self.messages.values[number].requester - 1
            known = self._message_moves[what, number] = Move(Event(what, place, number), cost, number, requester)
        return known

    def moves_of(self, number: int) -> tuple[Move, ...]:
        """Return the events that a node can have by itself."""
        known = self._moves.get(number)
        if known is None:
            known = self._moves[number] = tuple(self._find_moves(self.nodes.values[number]))
        return known

    def _find_moves(self, frozen: FrozenNode) -> Iterator[Move]:
        place, limits = frozen.id - 1, self.model.budget
        yield Move(Event("time_out", place), TIMEOUTS)
        if frozen.flushing is not None:
            yield Move(Event("flushed", place))
        for kept in range(frozen.unflushed + 1 if limits.crashes else 0):
            yield Move(Event("crash", place, kept), CRASHES)
        if frozen.role is not Role.LEADER:
            return
        replica = Node.thawed(self._configs[place], self._around, frozen).raft.replica
        for node_id in self.model.ids if limits.reminders else ():
            if replica.voters.find(node_id) and node_id != frozen.id and node_id not in replica.requests._peers:
                yield Move(Event("remind", place, node_id), REMINDERS)
        for before in range(limits.proposals):
            yield Move(Event("propose", place, before + 1), PROPOSALS + before)
        for node_id in self.model.ids if limits.changes else ():
            request: Request = RemoveVoterRequest(voter=ReplicaKey(node_id)) if replica.voters.find(node_id) else \
                AddVoterRequest(voter=voter(node_id), timeout_ms=ANY_TIME_MS)
            yield Move(Event("change", place, request), CHANGES)

    # --- effects on the node -----------------------------------------------------------------------------------------

    def thawed(self, number: int) -> Node:
        frozen = self.nodes.values[number]
        return Node.thawed(self._configs[frozen.id - 1], self._around, frozen)

    def act(self, node: Node, event: Event) -> ViolationError | None:
        """Execute the event at the node. Return the violation that this causes, or None."""
        try:
            if event.what == "deliver":
                node.receive(self.messages.values[event.argument])
            elif event.what == "lose":
                node.lose(self.messages.values[event.argument].target)
            elif event.argument is None:
                getattr(node, event.what)()
            else:
                getattr(node, event.what)(event.argument)
        except ViolationError as violation:
            return violation
        except AssertionError as error:
            return ViolationError("CoreAsserts", str(error))
        return None

    def _carry_out(self, event: Event, number: int) -> tuple[Outcome, ...]:
        """Return the outcomes. There are several only where the core may choose the receiver of its query for the
        leader."""
        outcomes = [self._outcome(event, number, None)]
        outcomes += [self._outcome(event, number, target) for target in self._redirections]
        return tuple(outcomes)

    def _outcome(self, event: Event, number: int, redirected: NodeId | None) -> Outcome:
        self.steps += 1
        node = self.thawed(number)
        self._redirections: Sequence[NodeId] = ()
        violation = self.act(node, event)
        if violation is not None:
            return Outcome(self.steps, number, 0, violation=violation)
        if redirected is None:
            self._redirections = node.redirections()
        else:
            node.redirect(redirected)
        effect = Effect(node.id, tuple(self.messages.number(each) for each in node.sent),
                        None if event.what == "crash" else node.still_awaited())
        return Outcome(self.steps, self._number(node), self.effects.number(effect),
                       is_beyond=node.saved.epoch > self.model.epoch_max, reports=tuple(node.recorder.reports),
                       judged=tuple(node.judged))

    # --- effects on the messages -------------------------------------------------------------------------------------

    def _exchanges_of(self, exchanges: tuple[int, ...], taken: int, effect: int, nodes: tuple[int, ...],
                      places: tuple[int, ...]) -> tuple[int, ...]:
        """Return the exchanges after an event. Only those that contain the message and those of the node change. When
        the node has learned something, all may change."""
        knows = self._knows
        knowledge = tuple([knows[number] for number in nodes])
        after = list(exchanges)
        for place in places:
            key = (exchanges[place], place, taken, effect, knowledge)
            found = self._exchanges_after.get(key)
            if found is None:
                found = self._exchanges_after[key] = self._change(
                    exchanges[place], place + 1, taken, self.effects.values[effect], knowledge)
            after[place] = found
        return tuple(after)

    def _change(self, exchange: int, requester: int, taken: int, effect: Effect, knowledge: tuple[int, ...]) -> int:
        """Return the messages of the exchanges that `requester` began, after an event."""
        numbers = dict.fromkeys(each for each in effect.sent if self.messages.values[each].requester == requester)
        for each in self.exchanges.values[exchange]:
            message = self.messages.values[each]
            if each == taken:
                continue
            if requester != effect.node:
                numbers[each] = None
            elif effect.awaited is not None:
                is_late = message.wait is Wait.AWAITED and message.target not in effect.awaited
                numbers[self.messages.number(message._replace(wait=Wait.LATE)) if is_late else each] = None
            elif not message.is_answer:
                numbers[self.messages.number(message._replace(wait=Wait.DROPPED))] = None
        return self.exchanges.number(tuple(sorted(each for each in numbers if self._is_alive(each, knowledge))))

    def _is_alive(self, number: int, knowledge: tuple[int, ...]) -> bool:
        message = self.messages.values[number]
        if message.wait is not Wait.AWAITED and not isinstance(message.payload, self.model.late):
            return False
        return not is_dead(message, self.knowledge.values[knowledge[message.receiver - 1]])

    def _with_duplicate(self, exchange: int, number: int) -> int:
        late = self.messages.number(self.messages.values[number]._replace(wait=Wait.LATE))
        return self.exchanges.number(tuple(sorted(dict.fromkeys((*self.exchanges.values[exchange], late)))))

    # --- effects on the ledger ---------------------------------------------------------------------------------------

    def _ledger_after(self, ledger: int, outcome: Outcome, nodes: tuple[int, ...]) -> int | ViolationError:
        key: tuple[int, ...] = (ledger, outcome.number)
        if "committed" in outcome.judged:
            key += tuple(self.facts(number)[1] for number in nodes)
        found = self._ledgers_after.get(key)
        if found is None:
            found = self._ledgers_after[key] = self._judge(thaw(self.ledgers.values[ledger]), outcome, nodes)
        return found

    def _judge(self, ledger: Ledger, outcome: Outcome, nodes: tuple[int, ...]) -> int | ViolationError:
        def held() -> dict[ReplicaKey, ExploredLog]:
            others = [self.thawed(number) for number in nodes]
            return {node.key: node.log for node in others}

        try:
            for name, arguments in outcome.reports:
                getattr(ledger, name)(*arguments)
            judge(self.thawed(outcome.node), outcome.judged, ledger, held)
        except ViolationError as violation:
            return violation
        return self.ledgers.number(freeze(ledger))

    def check(self, state: State) -> None:
        """Durability: check that what is committed is on a disk, whichever node loses power next. Raises a
        `ViolationError`."""
        nodes, _, ledger, _ = state
        key = (ledger, *[self.facts(number)[1] for number in nodes])
        if key not in self._durable:
            self._durable[key] = None
            invariants.durability(thaw(self.ledgers.values[ledger]), [self.thawed(number).log for number in nodes])

    # --- symmetry ----------------------------------------------------------------------------------------------------

    def representative(self, state: State) -> State:
        """Return the same state for all states that differ only in the names of the nodes. Nodes are sorted by shape.
        Nodes of equal shape are tried in each of their orders."""
        nodes, exchanges, ledger, budget = state
        found = self._representatives.get(nodes)
        if found is None:
            found = self._representatives[nodes] = self._represent(nodes)
        renamings = found[1]
        if len(renamings) == 1:
            return found[0], *self._rename_rest(exchanges, ledger, renamings[0]), budget
        exchanges, ledger = min([self._rename_rest(exchanges, ledger, each) for each in renamings])
        return found[0], exchanges, ledger, budget

    def _rename_rest(self, exchanges: tuple[int, ...], ledger: int, renaming: Renaming) -> tuple[tuple[int, ...], int]:
        if renaming.is_identity:
            return exchanges, ledger
        table = self.exchanges
        known = table.known(renaming)
        renamed = [known[exchanges[place]] if exchanges[place] in known else table.renamed(exchanges[place], renaming)
                   for place in renaming.places]
        return tuple(renamed), self.ledgers.renamed(ledger, renaming)

    def _represent(self, nodes: tuple[int, ...]) -> tuple[tuple[int, ...], list[Renaming]]:
        shapes = [self.facts(number)[2] for number in nodes]
        kinds = sorted(dict.fromkeys(shapes))
        groups = [[place for place, each in enumerate(shapes) if each == kind] for kind in kinds]
        best: tuple[int, ...] | None = None
        renamings: list[Renaming] = []
        for orders in product(*[permutations(group) for group in groups]):
            places = [place for order in orders for place in order]
            names = [NodeId(0)] * (len(places) + 1)
            for rank, place in enumerate(places, 1):
                names[place + 1] = NodeId(rank)
            renaming = self._renaming(tuple(names))
            renamed = tuple([self.nodes.renamed(nodes[place], renaming) for place in places])
            self.facts(max(renamed))
            if best is None or renamed < best:
                best, renamings = renamed, []
            if renamed == best:
                renamings.append(renaming)
        assert best is not None
        return best, renamings

    def _renaming(self, names: tuple[NodeId, ...]) -> Renaming:
        if names not in self._renamings:
            self._renamings[names] = Renaming(len(self._renamings), names, self.chains)
        return self._renamings[names]
