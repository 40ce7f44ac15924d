"""The states of an explored quorum and what leads from one to another.

A state is a few numbers: one for each node, one for the messages of each node's exchanges, one for what is known about
the truth (`sim.ledger`), one for how often what may still happen. An event changes one node, and what it does depends
on nothing else: so every event of every node is carried out once, by the real core, and looked up ever after.
"""

from collections.abc import Iterator, Sequence
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
TIMEOUTS, CRASHES, LOSSES, DUPLICATES, REMINDERS, PROPOSALS, CHANGES = range(len(Budget._fields))


class State(NamedTuple):
    """Numbers in the tables of a `Space`; nodes, and the exchanges that they began, in the order of their ids."""

    nodes: tuple[int, ...]
    exchanges: tuple[int, ...]
    ledger: int
    budget: int


class Event(NamedTuple):
    """`what` happens to the node at `place`: a method of `Node` and its argument, or the number of a message that it
    receives, that is lost, or duplicated. `choice`: of the ways in which a node can do it."""

    what: str
    place: int
    argument: Any = None
    choice: int = 0


class Effect(NamedTuple):
    """What an event does to the messages: some are sent; of those of `node`, which does not wait for others than
    `awaited` any more (None: its process has ended), some are late."""

    node: NodeId
    sent: tuple[int, ...]
    awaited: tuple[NodeId, ...] | None


class Outcome:
    """What one event does to one node, once and for all. `told`: to the ledger. `judged`: invariants that look beyond
    the node."""

    __slots__ = ("effect", "is_beyond", "judged", "node", "number", "told", "violation")

    def __init__(self, number: int, node: int, effect: int, *, is_beyond: bool = False, told: tuple[Any, ...] = (),
                 judged: tuple[str, ...] = (), violation: ViolationError | None = None) -> None:
        self.number = number
        self.node = node
        self.effect = effect
        self.is_beyond = is_beyond
        self.told = told
        self.judged = judged
        self.violation = violation


class FoundError(Exception):
    """An event breaks an invariant."""

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
        self._around = Around(self.chains, model.asks_around)
        self._configs = [model.config(node_id) for node_id in model.ids]
        self._outcomes: dict[tuple[str, int, Any], tuple[Outcome, ...]] = {}
        self.steps = 0
        self._exchanges_after: dict[tuple[Any, ...], int] = {}
        self._ledgers_after: dict[tuple[int, ...], int | ViolationError] = {}
        self._durable: dict[tuple[int, ...], None] = {}
        self._renamings: dict[tuple[NodeId, ...], Renaming] = {}
        self._representatives: dict[tuple[int, ...], tuple[tuple[int, ...], list[Renaming]]] = {}
        self._facts: list[tuple[int, int, int]] = []
        self._events: dict[int, tuple[tuple[Event, int], ...]] = {}
        self.first = self._first()

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
        ledger.commits(log.batches, "the past")
        for batch in log.batches:
            ledger.appended(batch, "the past")
        return State(tuple(numbers), exchanges, self.ledgers.number(freeze(ledger)), self.budgets.number(model.budget))

    def _number(self, node: Node) -> int:
        frozen = node.frozen()
        return self.nodes.number(frozen)

    def facts(self, number: int) -> tuple[int, int, int]:
        """Of a node: the numbers of what it knows about the leader, of its log, and of its shape."""
        while len(self._facts) <= number:
            frozen = self.nodes.values[len(self._facts)]
            self._facts.append((
                self.knowledge.number(frozen.hard_state), self.logs.number((frozen.id, frozen.log)),
                self.shapes.number(shape(frozen, frozen.id))))
        return self._facts[number]

    # --- events ------------------------------------------------------------------------------------------------------

    def successors(self, state: State) -> Iterator[tuple[Event, State]]:
        """Every event that can happen, and what follows. Raises a `FoundError` when it breaks an invariant."""
        nodes, exchanges, ledger, budget = state
        for number in nodes:
            for event, cost in self.events_of(number):
                left = budget if cost == NOTHING else self.spent(budget, cost)
                if left != NOTHING:
                    happens = self._numbered(event, budget) if event.what == "propose" else event
                    yield from self._happen(happens, number, state, left)
        for asker, exchange in enumerate(exchanges):
            for each in self.exchanges.values[exchange]:
                message = self.messages.values[each]
                place = message.receiver - 1
                yield from self._happen(Event("deliver", place, each), nodes[place], state, budget)
                if message.wait is Wait.AWAITED:
                    left = self.spent(budget, LOSSES)
                    if left != NOTHING:
                        yield from self._happen(Event("lose", asker, each), nodes[asker], state, left)
                    left = self.spent(budget, DUPLICATES)
                    if left != NOTHING and not message.is_answer:
                        after = list(exchanges)
                        after[asker] = self._with_duplicate(exchange, each)
                        yield Event("duplicate", place, each), State(nodes, tuple(after), ledger, left)

    def _happen(self, event: Event, number: int, state: State, budget: int) -> Iterator[tuple[Event, State]]:
        known = self._outcomes.get((event.what, number, event.argument))
        if known is None:
            known = self._carry_out(event, number)
        taken = event.argument if event.what in ("deliver", "lose") else NOTHING
        nodes, place = state.nodes, event.place
        for choice, outcome in enumerate(known):
            if outcome.violation is not None:
                raise FoundError(event._replace(choice=choice), outcome.violation)
            if outcome.is_beyond:
                continue
            after = (*nodes[:place], outcome.node, *nodes[place + 1:])
            ledger = state.ledger
            if outcome.told or outcome.judged:
                found = self._ledger_after(ledger, outcome, after)
                if isinstance(found, ViolationError):
                    raise FoundError(event._replace(choice=choice), found)
                ledger = found
            yield (event._replace(choice=choice) if choice else event), State(
                after, self._exchanges_of(state.exchanges, taken, outcome.effect, after), ledger, budget)

    def _numbered(self, event: Event, budget: int) -> Event:
        """Values are told apart by how many were proposed before."""
        return event._replace(argument=self.model.budget.proposals - self.budgets.values[budget].proposals + 1)

    def spent(self, budget: int, index: int) -> int:
        """The budget without one of what is at `index`; NOTHING when there is none left."""
        value = self.budgets.values[budget]
        if value[index] == 0:
            return NOTHING
        return self.budgets.number(Budget(*[each - (place == index) for place, each in enumerate(value)]))

    def events_of(self, number: int) -> tuple[tuple[Event, int], ...]:
        """What can happen to a node by itself, and the place in the budget of what it costs."""
        known = self._events.get(number)
        if known is None:
            known = self._events[number] = tuple(self._find_events(self.nodes.values[number]))
        return known

    def _find_events(self, frozen: FrozenNode) -> Iterator[tuple[Event, int]]:
        place, limits = frozen.id - 1, self.model.budget
        yield Event("time_out", place), TIMEOUTS
        if frozen.flushing is not None:
            yield Event("flushed", place), NOTHING
        for kept in range(frozen.unflushed + 1 if limits.crashes else 0):
            yield Event("crash", place, kept), CRASHES
        if frozen.role is not Role.LEADER:
            return
        replica = Node.thawed(self._configs[place], self._around, frozen).raft.replica
        for node_id in self.model.ids if limits.reminders else ():
            if replica.voters.find(node_id) and node_id != frozen.id and node_id not in replica.requests._peers:
                yield Event("remind", place, node_id), REMINDERS
        if limits.proposals:
            yield Event("propose", place), PROPOSALS
        for node_id in self.model.ids if limits.changes else ():
            request: Request = RemoveVoterRequest(voter=ReplicaKey(node_id)) if replica.voters.find(node_id) else \
                AddVoterRequest(voter=voter(node_id), timeout_ms=ANY_TIME_MS)
            yield Event("change", place, request), CHANGES

    # --- what they do, to the node -----------------------------------------------------------------------------------

    def thawed(self, number: int) -> Node:
        frozen = self.nodes.values[number]
        return Node.thawed(self._configs[frozen.id - 1], self._around, frozen)

    def act(self, node: Node, event: Event) -> ViolationError | None:
        """Lets the event happen to the node; gives the invariant that this breaks."""
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
        """The outcomes; more than one only where the core may choose whom it asks for the leader."""
        outcomes = [self._outcome(event, number, None)]
        outcomes += [self._outcome(event, number, target) for target in self._redirections]
        known = self._outcomes[event.what, number, event.argument] = tuple(outcomes)
        return known

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
                       is_beyond=node.saved.epoch > self.model.epoch_max, told=tuple(node.recorder.told),
                       judged=tuple(node.judged))

    # --- to the messages ---------------------------------------------------------------------------------------------

    def _exchanges_of(self, exchanges: tuple[int, ...], taken: int, effect: int, nodes: tuple[int, ...]
                      ) -> tuple[int, ...]:
        knowledge = tuple([self.facts(number)[0] for number in nodes])
        after = []
        for asker, exchange in enumerate(exchanges, 1):
            key = (exchange, asker, taken, effect, knowledge)
            found = self._exchanges_after.get(key)
            if found is None:
                found = self._exchanges_after[key] = self._change(
                    exchange, asker, taken, self.effects.values[effect], knowledge)
            after.append(found)
        return tuple(after)

    def _change(self, exchange: int, asker: int, taken: int, effect: Effect, knowledge: tuple[int, ...]) -> int:
        """The messages of the exchanges that `asker` began, after an event."""
        numbers = dict.fromkeys(each for each in effect.sent if self.messages.values[each].asker == asker)
        for each in self.exchanges.values[exchange]:
            message = self.messages.values[each]
            if each == taken:
                continue
            if asker != effect.node:
                numbers[each] = None
            elif effect.awaited is not None:
                is_late = message.wait is Wait.AWAITED and message.target not in effect.awaited
                numbers[self.messages.number(message._replace(wait=Wait.LATE)) if is_late else each] = None
            elif not message.is_answer:
                numbers[self.messages.number(message._replace(wait=Wait.GONE))] = None
        return self.exchanges.number(tuple(sorted(each for each in numbers if self._is_alive(each, knowledge))))

    def _is_alive(self, number: int, knowledge: tuple[int, ...]) -> bool:
        message = self.messages.values[number]
        if message.wait is not Wait.AWAITED and not isinstance(message.payload, self.model.late):
            return False
        return not is_dead(message, self.knowledge.values[knowledge[message.receiver - 1]])

    def _with_duplicate(self, exchange: int, number: int) -> int:
        late = self.messages.number(self.messages.values[number]._replace(wait=Wait.LATE))
        return self.exchanges.number(tuple(sorted(dict.fromkeys((*self.exchanges.values[exchange], late)))))

    # --- to what is known about the truth ----------------------------------------------------------------------------

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
            for name, arguments in outcome.told:
                getattr(ledger, name)(*arguments)
            judge(self.thawed(outcome.node), outcome.judged, ledger, held)
        except ViolationError as violation:
            return violation
        return self.ledgers.number(freeze(ledger))

    def check(self, state: State) -> None:
        """Durability: what is committed is on a disk, whoever loses power next. Raises a `ViolationError`."""
        key = (state.ledger, *[self.facts(number)[1] for number in state.nodes])
        if key not in self._durable:
            self._durable[key] = None
            invariants.durability(thaw(self.ledgers.values[state.ledger]),
                                  [self.thawed(number).log for number in state.nodes])

    # --- symmetry ----------------------------------------------------------------------------------------------------

    def representative(self, state: State) -> State:
        """The same for all states that differ in the names of the nodes only, or nearly so: where nodes look alike, all
        their orders are tried."""
        found = self._representatives.get(state.nodes)
        if found is None:
            found = self._representatives[state.nodes] = self._represent(state.nodes)
        nodes, renamings = found
        candidates = []
        for each in renamings:
            if each.is_identity:
                candidates.append((state.exchanges, state.ledger))
            else:
                renamed = self.exchanges.renamed
                candidates.append((tuple([renamed(state.exchanges[place], each) for place in each.places]),
                                   self.ledgers.renamed(state.ledger, each)))
        exchanges, ledger = candidates[0] if len(candidates) == 1 else min(candidates)
        return State(nodes, exchanges, ledger, state.budget)

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
            if best is None or renamed < best:
                best, renamings = renamed, []
            if renamed == best:
                renamings.append(renaming)
        assert best is not None
        return best, renamings

    def _renaming(self, names: tuple[NodeId, ...]) -> Renaming:
        return self._renamings.setdefault(names, Renaming(names, self.chains))
