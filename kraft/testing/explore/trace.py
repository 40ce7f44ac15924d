"""A path through a space as text: one event per line, and below it, indented, the trace of the core. Any process can
replay such a text."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kraft.raft.messages import AddVoterRequest, RemoveVoterRequest
from kraft.recorder.words import text_of
from kraft.testing.explore.messages import describe
from kraft.testing.explore.space import Event, FoundError, Space, State
from kraft.testing.sim.violation import ViolationError
from kraft_native.base.errors import InvalidArgumentError

INDENT = "    "


@dataclass(slots=True)
class Trace:
    """Path through a space. `events` are in order; `lines` has them and the output of the nodes; `violation` is the one
    at the end."""

    events: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    violation: ViolationError | None = None

    def __str__(self) -> str:
        return "\n".join(self.lines)


def event_text(space: Space, event: Event) -> str:
    """Return an event as one line; no two events of a state have the same."""
    node, argument = event.place + 1, event.argument
    if event.what in ("deliver", "lose", "duplicate"):
        text = f"{event.what} {space.messages.values[argument]}"
    elif event.what == "crash":
        text = f"crash {node}, {argument} of its unflushed records kept"
    elif event.what == "propose":
        text = f"propose {node} value {argument}"
    elif event.what == "change" and isinstance(argument, RemoveVoterRequest):
        text = f"change {node} remove {argument.voter}"
    elif event.what == "change" and isinstance(argument, AddVoterRequest):
        text = f"change {node} add {argument.voter.key}"
    elif event.what == "remind":
        text = f"remind {argument} by {node}"
    else:
        text = f"{event.what.replace('_', '-')} {node}"
    return text + (f", choice {event.choice}" if event.choice else "")


def _follow(space: Space, state: State, event: Event, trace: Trace) -> None:
    """Append the event and its effects on the core to the trace."""
    trace.events.append(event_text(space, event))
    trace.lines.append(f"{len(trace.events)}. {trace.events[-1]}")
    if event.what == "duplicate":
        return
    node = space.thawed(state[0][event.place])
    space.act(node, event)
    trace.lines += [f"{INDENT}{node.id} {text_of(note)}" for note in node.notes]
    for message in node.sent:
        receiver = message.target if message.requester == node.id else message.requester
        trace.lines.append(f"{INDENT}{node.id} sends to {receiver} {describe(message.payload)}")


def retrace(space: Space, states: Iterable[State], name: str) -> Trace:
    """Return the path from the first state, through those that `states` represent, to a violation of `name`. Nodes keep
    their names all the way."""
    trace, state = Trace(), space.first
    for wanted in states:
        event, after = next((event, after) for event, after in space.successors(state)
                            if space.representative(after) == wanted)
        _follow(space, state, event, trace)
        state = after
    event, violation = next((event, violation) for event, violation in violations(space, state)
                            if violation.name == name)
    _follow(space, state, event, trace)
    trace.violation = violation
    trace.lines.append(f"violation: {violation}")
    return trace


def violations(space: Space, state: State) -> Iterator[tuple[Event, ViolationError]]:
    """Yield the events of a state that immediately break an invariant."""
    try:
        for event, after in space.successors(state):
            try:
                space.check(after)
            except ViolationError as violation:
                yield event, violation
    except FoundError as error:
        yield error.event, error.violation


def replay(space: Space, text: str) -> Trace:
    """Replay the events of a printed trace. Raises an `InvalidArgumentError` for an event that is impossible in its
    state."""
    trace, state = Trace(), space.first
    for line in text.splitlines():
        number, dot, wanted = line.partition(". ")
        if not (dot and number.isdigit()):
            continue
        for event, violation in violations(space, state):
            if event_text(space, event) == wanted:
                _follow(space, state, event, trace)
                trace.violation = violation
                trace.lines.append(f"violation: {violation}")
                return trace
        found = next(((event, after) for event, after in space.successors(state)
                      if event_text(space, event) == wanted), None)
        if found is None:
            raise InvalidArgumentError(f"event {number}: {wanted!r} cannot happen there")
        _follow(space, state, found[0], trace)
        state = found[1]
    return trace
