"""Division of large requests into small ones, for the controller and the coordinators.

These decide a whole request in one step, and no other request may see a half-done decision. So a request with many
elements is submitted in parts, each of which is decided within a few milliseconds. Other requests are served between
two parts. Each part is sent when the previous one is answered, and the answers are merged into one.

Elements of a request are independent in Kafka's protocol: each has its own result. One guarantee does not hold across
parts: the elements of one request are not committed together, so a crash may leave only the first ones done.

Elements that name the same thing stay in one part, because each causes the other's refusal. A thing may have several
names: a topic has a name and an id, which the metadata connects. Of more than two elements with the same name the
others add nothing and are dropped.

A request that changes the cluster's metadata may have `CHANGES_MAX` elements, Kafka's limit of records and partitions
in one request. Each element may have `ENTRIES_MAX` settings or limits. All elements of a larger request, and each
larger element, get POLICY_VIOLATION. A request that only reads is answered once for each thing that it names.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final, NamedTuple
from uuid import UUID

from kraft.broker.api import Answer, Steps
from kraft.metadata.image import EMPTY, ZERO_ID, MetadataImage
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.message import Message, Offsets, Struct, caused_by
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup
from kraft_native.base.freeing import free_steps

CHANGES_MAX: Final = 10_000
ENTRIES_MAX: Final = 1_000
TOO_MANY: Final = f"one request may change {CHANGES_MAX} things at most, with {ENTRIES_MAX} settings each"
TOO_MANY_PARTITIONS: Final = "Excessively large number of partitions per request."
"""The same in Kafka's words, for requests that create partitions."""
ACLS_OF_A_PART: Final = 1_000
"""ACLs, or filters of them, of one part. The controller decides them in steps, and they take effect together: no reader
sees that something is allowed and not yet that it is denied to some."""
TOPICS_OF_A_PART: Final = 64
"""Partitions of new topics, and settings, of one part. The controller decides them in steps. Each part waits for the
commit of the one before."""
STEP: Final = 64
RANGES_MAX: Final = 64
"""Ranges of offsets that are known of one request. Other requests' records may lie between those of two parts."""
VALUE_CHARACTERS: Final = 1_024
"""Length of a value that takes as long to read as a setting takes to decide."""


class Level(NamedTuple):
    """One array on the path from a request to its elements: its name there, its name in the response, and its key. The
    key identifies an element in both; without one the elements are not compared."""

    request: str
    response: str
    key: tuple[str, ...] = ()


class Plan(NamedTuple):
    """Division of one kind of request. `paths` lead to its elements.

    - A part has elements that weigh `size` together, or a single heavier one.
    - All together may weigh `limit` (0: without limit).
    - An element may have `ENTRIES_MAX` of what `entries` counts.
    - `same` returns what an element names, with the structs around it; at most `repeats` elements with one name are
      kept.
    - `thing` returns the identity of a named thing, where the names of one thing differ.
    - `too_many` is the error message for a request above the limit."""

    paths: tuple[tuple[Level, ...], ...]
    size: int
    limit: int = 0
    weight: Callable[[Any], int] = lambda _element: 1
    same: Callable[[tuple[Any, ...], Any], object] | None = None
    entries: Callable[[Any], int] = lambda _element: 0
    repeats: int = 2
    too_many: str = TOO_MANY
    thing: Callable[[MetadataImage, Any], object] = lambda _image, named: named


class _Leaf(NamedTuple):
    """An element with the structs around it, outermost first."""

    path: tuple[Level, ...]
    around: tuple[Any, ...]
    element: Any

    @property
    def is_whole(self) -> bool:
        """True for an element, false for a struct without any inside."""
        return len(self.around) + 1 == len(self.path)


def _configs(element: Any) -> int:
    return len(element.configs)


def _configs_weight(element: Any) -> int:
    """Return the weight of settings. The parts of a list are read too, so a long value counts as several settings."""
    configs = element.configs
    if not configs:
        return 0
    if len(configs) > ENTRIES_MAX:
        return len(configs)            # refused: no value is read
    return len(configs) + sum(len(each.value or "") for each in configs) // VALUE_CHARACTERS


def _resource_weight(resource: Any) -> int:
    return max(1, _configs_weight(resource))


def _topic_weight(topic: Any) -> int:
    return int(max(1, topic.num_partitions, len(topic.assignments))) + _configs_weight(topic)


def _quota_entries(entry: Any) -> int:
    return max(len(entry.ops), len(entry.entity))


def _resource(_around: tuple[Any, ...], resource: Any) -> object:
    return resource.resource_type, resource.resource_name


def _name(_around: tuple[Any, ...], element: Any) -> object:
    return element.name


def _topic_name(_around: tuple[Any, ...], element: Any) -> object:
    return element.topic_name


def _itself(_around: tuple[Any, ...], element: Any) -> object:
    return element


def _deleted(_around: tuple[Any, ...], topic: Any) -> tuple[str | None, UUID]:
    return (topic, ZERO_ID) if isinstance(topic, str) else (topic.name, topic.topic_id)


def _deleted_topic(image: MetadataImage, named: tuple[str | None, UUID]) -> object:
    """Return the id of a topic that is named by its name or its id; what is given when no topic has that name."""
    name, topic_id = named
    if name is None:
        return topic_id
    return named if topic_id != ZERO_ID else image.topic_ids.get(name, named)


def _entity(_around: tuple[Any, ...], entry: Any) -> object:
    return tuple(sorted((part.entity_type, part.entity_name is None, part.entity_name or "") for part in entry.entity))


def _fetched(around: tuple[Any, ...], element: Any) -> object:
    """Return the identity of an element of OffsetFetch: a partition's index, or a topic or group without any below
    it."""
    return tuple(map(_group_or_topic, around)), element if isinstance(element, int) else _group_or_topic(element)


def _group_or_topic(element: Any) -> object:
    if isinstance(element, OffsetFetchRequestGroup):
        return element.group_id, element.member_id, element.member_epoch
    return element.name, getattr(element, "topic_id", None)      # a request for one group has topics without ids


_TOPIC_PARTITIONS: Final = (Level("topics", "topics", ("name",)), Level("partitions", "partitions"))
_BY_ID: Final = Level("topics", "topics", ("topic_id",))
_SHARE_STATES: Final = ((Level("topics", "results", ("topic_id",)), Level("partitions", "partitions")),)

PLANS: Final[dict[int, Plan]] = {
    ApiKey.CREATE_ACLS: Plan(((Level("creations", "results"),),), ACLS_OF_A_PART, CHANGES_MAX),
    ApiKey.DELETE_ACLS: Plan(((Level("filters", "filter_results"),),), ACLS_OF_A_PART, CHANGES_MAX),
    ApiKey.CREATE_TOPICS: Plan(
        ((Level("topics", "topics"),),), TOPICS_OF_A_PART, CHANGES_MAX, _topic_weight, _name, _configs,
        too_many=TOO_MANY_PARTITIONS),
    ApiKey.DELETE_TOPICS: Plan(
        ((Level("topics", "responses"),), (Level("topic_names", "responses"),)), 128, CHANGES_MAX, same=_deleted,
        thing=_deleted_topic),
    ApiKey.CREATE_PARTITIONS: Plan(((Level("topics", "results"),),), 32, CHANGES_MAX,
                                  lambda topic: 1 + len(topic.assignments or ()), _name,
                                  too_many=TOO_MANY_PARTITIONS),
    ApiKey.ALTER_CONFIGS: Plan(((Level("resources", "responses"),),), 32, CHANGES_MAX, _resource_weight, _resource,
                              _configs),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Plan(((Level("resources", "responses"),),), 32, CHANGES_MAX, _resource_weight,
                                         _resource, _configs),
    ApiKey.ALTER_CLIENT_QUOTAS: Plan(((Level("entries", "entries"),),), 128, CHANGES_MAX,
                                   lambda entry: max(1, _quota_entries(entry)), _entity, _quota_entries),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Plan(
        ((Level("deletions", "results"),), (Level("upsertions", "results"),)), 64, CHANGES_MAX, same=_name),
    ApiKey.ELECT_LEADERS: Plan(((Level("topic_partitions", "replica_election_results", ("topic",)),
                                Level("partitions", "partition_result")),), 128),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Plan(
        ((Level("topics", "responses", ("name",)), Level("partitions", "partitions")),), 128,
        weight=lambda partition: 1 + len(partition.replicas or ()) // 8),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Plan(
        ((Level("topics", "topics", ("name",)), Level("partition_indexes", "partitions")),), 512),
    ApiKey.ALTER_PARTITION: Plan(((_BY_ID, Level("partitions", "partitions")),), 128),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Plan(
        ((Level("directories", "directories", ("id",)), _BY_ID, Level("partitions", "partitions")),), 128),
    ApiKey.OFFSET_COMMIT: Plan(((Level("topics", "topics", ("name", "topic_id")),
                                Level("partitions", "partitions")),), 128),
    ApiKey.TXN_OFFSET_COMMIT: Plan((_TOPIC_PARTITIONS,), 128),
    ApiKey.OFFSET_DELETE: Plan((_TOPIC_PARTITIONS,), 256),
    ApiKey.OFFSET_FETCH: Plan((
        (Level("groups", "groups", ("group_id",)), Level("topics", "topics", ("name", "topic_id")),
         Level("partition_indexes", "partitions")),
        (Level("topics", "topics", ("name",)), Level("partition_indexes", "partitions"))), 256, same=_fetched,
        repeats=1),
    ApiKey.DESCRIBE_GROUPS: Plan(((Level("groups", "groups"),),), 64, same=_itself, repeats=1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Plan(((Level("group_ids", "groups"),),), 1, same=_itself, repeats=1),
    ApiKey.SHARE_GROUP_DESCRIBE: Plan(((Level("group_ids", "groups"),),), 1, same=_itself, repeats=1),
    ApiKey.STREAMS_GROUP_DESCRIBE: Plan(((Level("group_ids", "groups"),),), 1, same=_itself, repeats=1),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Plan(
        ((Level("groups", "groups", ("group_id",)), Level("topics", "topics", ("topic_name",)),
          Level("partitions", "partitions")),), 256),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Plan(
        ((Level("topics", "responses", ("topic_name",)), Level("partitions", "partitions")),), 256),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Plan(((Level("topics", "responses"),),), 32, same=_topic_name),
    ApiKey.ADD_PARTITIONS_TO_TXN: Plan((
        (Level("v3_and_below_topics", "results_by_topic_v3_and_below", ("name",)),
         Level("partitions", "results_by_partition")),
        (Level("transactions", "results_by_transaction", ("transactional_id",)),
         Level("topics", "topic_results", ("name",)), Level("partitions", "results_by_partition"))), 1_024),
    ApiKey.DESCRIBE_TRANSACTIONS: Plan(((Level("transactional_ids", "transaction_states"),),), 64, same=_itself,
                                     repeats=1),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Plan(_SHARE_STATES, 64),
    ApiKey.READ_SHARE_GROUP_STATE: Plan(_SHARE_STATES, 32),
    ApiKey.WRITE_SHARE_GROUP_STATE: Plan(_SHARE_STATES, 64,
                                         weight=lambda partition: 1 + len(partition.state_batches) // 8),
    ApiKey.DELETE_SHARE_GROUP_STATE: Plan(_SHARE_STATES, 64),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Plan(_SHARE_STATES, 256),
    ApiKey.DELETE_GROUPS: Plan(((Level("groups_names", "results"),),), 128, same=_itself),
    ApiKey.LEAVE_GROUP: Plan(((Level("members", "members"),),), 128),
}


def is_divided(request: Message) -> bool:
    """Return whether `serve_in_parts` may send the request in several parts."""
    plan = PLANS.get(request.API_KEY)
    return plan is not None and not _is_small(plan, request)


def serve_in_parts(request: Message, send: Callable[[Message, Answer], None], answer: Answer,
                   run: Callable[[Steps], None], refuse: Callable[[Message, str], Message] | None = None,
                   image: MetadataImage = EMPTY) -> Steps:
    """Serve the request by calls of `send`, as a whole or in parts; `answer` gets the whole response. `run` gets the
    steps that are left when an answer comes later. Requests that name topics by name and by id need the `image`.

    `refuse` creates the POLICY_VIOLATION response for all of a request, with a message; requests with a limit need
    it."""
    plan = PLANS.get(request.API_KEY)
    if plan is None or _is_small(plan, request):
        send(request, answer)
        return
    leaves = yield from _leaves(plan, request, image)
    chunks, weight = yield from _chunks(plan, leaves, image)
    del leaves                         # each part is freed after it is sent
    is_too_large = plan.limit > 0 and weight > plan.limit

    def send_part(chunk: list[_Leaf], answer_part: Answer) -> None:
        part = part_of(plan, request, chunk)
        if is_too_large or any(plan.entries(leaf.element) > ENTRIES_MAX for leaf in chunk if leaf.is_whole):
            assert refuse is not None, f"{type(request).__name__} has a limit and no refusal"
            answer_part(refuse(part, plan.too_many if is_too_large else TOO_MANY))
        else:
            send(part, answer_part)

    parts = _Parts(plan, chunks, send_part, answer, run)
    del chunks
    yield from parts.steps()


class _KnownElement(NamedTuple):
    """The last element of a response with some key, and the known elements inside it."""

    element: Any
    inside: "dict[object, _KnownElement]"


_Known = dict[object, _KnownElement]


class _Parts:
    """A request in progress, part by part."""

    def __init__(self, plan: Plan, chunks: deque[list[_Leaf]], send: Callable[[list[_Leaf], Answer], None],
                 answer: Answer, run: Callable[[Steps], None]) -> None:
        self._plan = plan
        self._chunks = chunks
        self._send = send
        self._answer = answer
        self._run = run
        self._whole: Message | None = None
        self._known: dict[str, _Known] = {}
        self._sending = self._answered = False

    def steps(self) -> Steps:
        """Send parts until one is not answered at once; its answer continues."""
        while self._chunks:
            self._sending, self._answered = True, False
            self._send(self._chunks.popleft(), self._take)
            self._sending = False
            if not self._answered:
                return
            yield
        assert self._whole is not None
        self._answer(self._whole)
        known: list[object] = [self._known]
        self._known = {}
        yield from free_steps(known)   # the caller of `_take` still refers to this object when the last step ends

    def _take(self, response: Message) -> None:
        self._answered = True
        if self._whole is None:
            self._whole = response
            self._index(response)
        else:
            if caused := caused_by(response):
                self._whole.caused = merged(caused_by(self._whole), caused)
            self._merge(self._whole, response)
        if not self._sending:
            self._run(self.steps())

    def _index(self, response: Message) -> None:
        for path in _responses(self._plan):
            self._add(path, self._known.setdefault(path[0].response, {}), [], getattr(response, path[0].response) or ())

    def _merge(self, whole: Any, response: Any) -> None:
        if hasattr(whole, "error_code") and not whole.error_code and response.error_code:
            whole.error_code = response.error_code
            if hasattr(whole, "error_message"):
                whole.error_message = response.error_message
        if hasattr(whole, "throttle_time_ms"):
            whole.throttle_time_ms = max(whole.throttle_time_ms, response.throttle_time_ms)
        for path in _responses(self._plan):
            found = getattr(response, path[0].response)
            if found:
                self._add(path, self._known[path[0].response], getattr(whole, path[0].response), found)

    def _add(self, path: tuple[Level, ...], known: _Known, into: list[Any], elements: Iterable[Any]) -> None:
        """Append elements of one response. What is inside an element that continues a known one is merged into that
        one. An element whose key occurred in this response before is another one: the request named it twice."""
        level, deeper = path[0], path[1:]
        if not deeper:
            into.extend(elements)
            return
        seen: dict[object, None] = {}
        for element in elements:
            key = tuple(getattr(element, name) for name in level.key)
            before = None if key in seen else known.get(key)
            seen[key] = None
            inside = getattr(element, deeper[0].response)
            if before is None:
                known[key] = _KnownElement(element, {})
                into.append(element)
                self._add(deeper, known[key].inside, [], inside)
            else:
                self._add(deeper, before.inside, getattr(before.element, deeper[0].response), inside)


def merged(before: Offsets, after: Offsets) -> Offsets:
    """Return both ranges of offsets: adjacent ones as one, and `RANGES_MAX` at most."""
    found = list(before)
    for first, last in after:
        if found and first == found[-1][1] + 1:
            found[-1] = found[-1][0], last
        elif len(found) < RANGES_MAX:
            found.append((first, last))
    return tuple(found)


def _responses(plan: Plan) -> list[tuple[Level, ...]]:
    """Return one path for each array of the response."""
    return list({path[0].response: path for path in reversed(plan.paths)}.values())


def _is_small(plan: Plan, request: Message) -> bool:
    weight = 0
    seen: dict[object, None] = {}
    for number, leaf in enumerate(_walk(plan, request)):
        weight += plan.weight(leaf.element) if leaf.is_whole else 1
        if weight > plan.size:
            return False
        if plan.repeats == 1 and plan.same is not None:
            seen[plan.same(leaf.around, leaf.element)] = None
            if len(seen) <= number:
                return False
    return True


def _walk(plan: Plan, request: Message) -> Iterator[_Leaf]:
    for path in plan.paths:
        yield from _inside(path, 0, (), request)


def _inside(path: tuple[Level, ...], depth: int, around: tuple[Any, ...], struct: Struct) -> Iterator[_Leaf]:
    for element in getattr(struct, path[depth].request) or ():
        if depth + 1 < len(path) and getattr(element, path[depth + 1].request):
            yield from _inside(path, depth + 1, (*around, element), element)
        else:
            yield _Leaf(path, around, element)


def _leaves(plan: Plan, request: Message, image: MetadataImage) -> Generator[None, None, list[_Leaf]]:
    """Return the elements, grouped by the things that they name, with at most `repeats` of each name."""
    if plan.same is None:
        found = []
        for leaf in _walk(plan, request):
            found.append(leaf)
            if len(found) % STEP == 0:
                yield
        return found
    grouped: dict[object, list[tuple[object, _Leaf]]] = {}
    for number, leaf in enumerate(_walk(plan, request)):
        named = plan.same(leaf.around, leaf.element)
        group = grouped.setdefault(plan.thing(image, named), [])
        if sum(known == named for known, _ in group) < plan.repeats:
            group.append((named, leaf))
        if number % STEP == 0:
            yield
    found = []
    while grouped:                     # freed in steps: all groups at once take 10 ms
        found += (leaf for _, leaf in reversed(grouped.popitem()[1]))
        if len(grouped) % STEP == 0:
            yield
    found.reverse()
    return found


def _chunks(plan: Plan, leaves: list[_Leaf], image: MetadataImage
            ) -> Generator[None, None, tuple[deque[list[_Leaf]], int]]:
    """Return the parts, and the weight of all together."""
    chunks: deque[list[_Leaf]] = deque()
    chunk: list[_Leaf] = []
    weight = total = 0
    before = None
    for number, leaf in enumerate(leaves):
        own = plan.weight(leaf.element) if leaf.is_whole else 1
        thing = None if plan.same is None else plan.thing(image, plan.same(leaf.around, leaf.element))
        if chunk and weight + own > plan.size and (thing is None or thing != before):
            chunks.append(chunk)
            chunk, weight = [], 0
        chunk.append(leaf)
        weight += own
        total += own
        before = thing
        if number % STEP == 0:
            yield
    chunks.append(chunk)
    return chunks, total


def part_of(plan: Plan, request: Message, leaves: Iterable[_Leaf]) -> Message:
    """Return a request with only these elements and otherwise the fields of the whole."""
    part = request.replace(**{path[0].request: [] for path in plan.paths if getattr(request, path[0].request)})
    originals: list[Any] = []
    copies: list[Any] = []
    for path, around, element in leaves:
        shared = 0
        while shared < len(around) and shared < len(originals) and originals[shared] is around[shared]:
            shared += 1
        del originals[shared:], copies[shared:]
        for depth in range(shared, len(around)):
            copy = around[depth].replace(**{path[depth + 1].request: []})
            getattr(copies[-1] if copies else part, path[depth].request).append(copy)
            originals.append(around[depth])
            copies.append(copy)
        getattr(copies[-1] if copies else part, path[len(around)].request).append(element)
    return part
