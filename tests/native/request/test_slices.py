"""Shares of the loop's time: slices end, are resumed, and rotate; no connection waits for the pipelined requests of
others."""

import struct
from collections.abc import Generator, Iterator
from typing import ClassVar

import pytest

from kraft.protocol.api_keys import ApiKey
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.request.reply import Reply, ReplySink
from kraft_native.request.slices import SliceQueue
from tests.native.wires import METADATA, PIPELINED, Bench, replies, request

DESCRIBE = ApiKey.DESCRIBE_CONFIGS
LARGE_BYTES = 64 * 1024


class Sink(ReplySink):
    """Record which work is finished."""

    def __init__(self) -> None:
        self.finished: list[Reply] = []

    def reply_finished(self, reply: Reply) -> int:
        self.finished.append(reply)
        return 0


class Queue:
    """A queue whose iterations the test runs. A slice of one microsecond ends with every step."""

    def __init__(self, slice_us: int = 1, iteration_us: int = 1) -> None:
        self.due: list[object] = []
        self.failures: list[BaseException] = []
        self.sink = Sink()
        self.queue = SliceQueue(self.due.append, self.failures.append, slice_us=slice_us, iteration_us=iteration_us)

    def start(self, work: Generator[None, None, None], api_key: int = DESCRIBE) -> Reply:
        reply = Reply(self.sink, api_key, 0, 1)
        self.queue.start(reply, work)
        return reply

    def iterate(self) -> None:
        due, self.due[:] = list(self.due), []
        for each in due:
            assert callable(each)
            each()


def steps(count: int, done: list[str], name: str) -> Generator[None, None, None]:
    for _ in range(count):
        sum(range(200))                # longer than a slice of a microsecond
        done.append(name)
        yield


def test_short_work_is_done_at_once() -> None:
    made = Queue(1_000_000, 1_000_000)
    done: list[str] = []
    made.start(steps(5, done, "a"))
    assert done == ["a"] * 5
    assert made.due == [] and made.queue.used_up == {}


def test_long_work_takes_turns() -> None:
    made = Queue()
    done: list[str] = []
    for name in "abc":
        made.start(steps(4, done, name))
    assert done == ["a", "b", "c"]     # a slice each, at once
    while made.due:
        made.iterate()
    assert done == ["a", "b", "c"] * 4
    assert made.queue.used_up == {DESCRIBE: 3}
    assert made.queue.waiting_count == 0


def test_an_iteration_ends_when_its_time_is_used_up() -> None:
    made = Queue()
    done: list[str] = []
    for name in "ab":
        made.start(steps(3, done, name))
    made.iterate()
    assert len(done) == 3              # one slice of an iteration that lasts a microsecond
    assert len(made.due) == 1          # the loop serves others first


def test_work_of_a_removed_connection_is_closed() -> None:
    made = Queue()
    closed: list[str] = []

    def work() -> Generator[None, None, None]:
        try:
            yield from steps(100, [], "x")
        finally:
            closed.append("closed")

    class Leaving(Bench):
        def on_request(self, reply: Reply, api_key: int, version: int, body: bytes) -> None:
            made.queue.start(reply, work())

    bench = Leaving()
    wire = bench.connect()
    wire.feed(request(METADATA, 5, 1))
    assert made.queue.waiting_count == 1
    wire.connection.connection_lost(None)
    made.iterate()
    assert closed == ["closed"] and made.queue.waiting_count == 0
    bench.end()


def test_a_fault_in_work_is_reported_and_ends_the_request() -> None:
    made = Queue()

    def work() -> Generator[None, None, None]:
        yield
        raise AssertionError("broken")

    reply = made.start(work())
    while made.due:
        made.iterate()
    assert [str(each) for each in made.failures] == ["broken"]
    assert reply.refused


def test_a_call_ends_before_it_returns_and_its_fault_ends_the_request() -> None:
    made, done = Queue(), list[int]()
    reply = Reply(made.sink, DESCRIBE, 0, 1)
    made.queue.call(reply, lambda: done.append(sum(range(10_000))))
    assert done and made.due == [] and not reply.refused
    assert made.queue.longest_ns[DESCRIBE] > 0

    def broken() -> None:
        raise AssertionError("broken")

    made.queue.call(reply, broken)
    assert [str(each) for each in made.failures] == ["broken"]
    assert reply.refused


def test_long_steps_are_counted() -> None:
    made = Queue()
    made.start(steps(2, [], "a"))
    assert made.queue.longest_ns[DESCRIBE] > 0


def test_few_long_requests_are_worked_on_at_a_time() -> None:
    """Partial results of the others wait in memory, so their number is bounded."""
    made = Queue()
    done: list[str] = []
    for number in range(40):
        made.start(steps(20, done, str(number)))
    while len(done) < 40 * 8:
        assert made.queue.long_count == 0 or len(done) > 40 * 7
        made.iterate()
    assert (made.queue.long_count, made.queue.waiting_count) == (3, 40)
    made.start(steps(3, done, "short"))        # does not wait for the long ones
    while done.count("short") < 3:
        made.iterate()
    assert len(done) < 40 * 8 + 3 * 5
    while len(done) < 40 * 8 + 3 + 3 * 12:
        made.iterate()
    assert set(done[40 * 8:]) == {"short", *(str(number) for number in range(3))}
    while made.due:
        made.iterate()
    assert len(done) == 40 * 20 + 3
    assert (made.queue.long_count, made.queue.waiting_count) == (0, 0)


def test_the_answer_to_a_long_request_does_not_wait_for_others() -> None:
    """Otherwise all of them would be decoded and answered in memory before the first one is sent."""
    made = Queue()
    done: list[str] = []
    replies_by_name: dict[str, Reply] = {}

    def serve(name: str) -> Generator[None, None, None]:
        yield from steps(20, [], name)
        made.queue.start(replies_by_name[name], steps(20, done, name))

    for number in range(12):
        replies_by_name[str(number)] = reply = Reply(made.sink, DESCRIBE, 0, 1)
        made.queue.start(reply, serve(str(number)))
    while made.due:
        made.iterate()
        assert made.queue.long_count <= 8
    ends = [max(place for place, each in enumerate(done) if each == str(number)) for number in range(12)]
    begins = [done.index(str(number)) for number in range(12)]
    assert max(ends[:4]) < min(begins[8:]) and made.queue.long_count == 0
    assert made.queue.used_up == {DESCRIBE: 12}


def test_large_requests_wait_before_they_are_decoded() -> None:
    """Each of them would be ten times as large as objects."""
    made = Queue()
    done: list[str] = []

    class Large(Bench):
        def on_request(self, reply: Reply, api_key: int, version: int, body: bytes) -> None:
            made.queue.start(reply, steps(20, done, str(reply.correlation_id)))

    bench = Large()
    wires = [bench.connect() for _ in range(12)]
    for number, wire in enumerate(wires):
        wire.feed(request(METADATA, 5, number, bytes(LARGE_BYTES)))
    while done.count("0") < 20:
        made.iterate()
    assert [done.count(str(number)) for number in range(6, 12)] == [1] * 6
    while made.due:
        made.iterate()
    assert len(done) == 12 * 20 and (made.queue.long_count, made.queue.waiting_count) == (0, 0)
    bench.end()


def test_the_second_slice_of_an_only_request_does_not_wait_for_pipelined_ones() -> None:
    made = Queue()
    done: list[str] = []

    class Working(Bench):
        def on_request(self, reply: Reply, api_key: int, version: int, body: bytes) -> None:
            made.queue.start(reply, steps(3, done, str(reply.correlation_id // 1000)))

    bench = Working()
    for sender in range(1, 6):
        bench.connect().feed(pipelined(sender, 3))
    before = len(done)
    bench.connect().feed(request(METADATA, 5, 6_000))
    made.iterate()
    assert done[before:] == ["6", "6"]
    made.iterate()
    assert done[before + 2] == "1"     # its third slice waits like those of others
    while made.due:
        made.iterate()
    assert done.count("6") == 3
    bench.end()


class Element:
    """An object that is counted."""

    living: ClassVar[int] = 0

    def __init__(self) -> None:
        Element.living += 1

    def __del__(self) -> None:
        Element.living -= 1


def holding(count: int) -> Generator[None, None, None]:
    """Work with many objects, which ends with all of them."""
    found = {}
    for number in range(count):
        found[number, "key"] = Element()
        if number % 64 == 0:
            sum(range(200))
            yield


@pytest.mark.parametrize("is_closed", [False, True])
def test_what_work_owns_at_its_end_is_freed_in_slices(*, is_closed: bool) -> None:
    made = Queue()

    class Leaving(Bench):
        def on_request(self, reply: Reply, api_key: int, version: int, body: bytes) -> None:
            made.queue.start(reply, holding(10_000))

    bench = Leaving()
    wire = bench.connect()
    wire.feed(request(METADATA, 5, 1))
    most, before = 0, 0
    while made.due:
        made.iterate()
        most, before = max(most, before - Element.living), Element.living
        if is_closed and Element.living > 5_000:
            wire.connection.connection_lost(None)
    assert most <= 512
    assert Element.living == 0 and made.failures == []
    bench.end()


def test_what_work_does_not_need_any_more_is_freed_in_slices_meanwhile() -> None:
    made = Queue()

    def work() -> Generator[None, None, None]:
        yield from holding(10_000)
        yield from steps(1_000, [], "a")

    made.start(work())
    most, before = 0, 0
    while made.due:
        made.iterate()
        most, before = max(most, before - Element.living), Element.living
        if Element.living == 0 and most:
            break
    assert most <= 512 and made.queue.waiting_count == 1


def test_freeing_begins_in_a_later_iteration() -> None:
    """The caller may still refer to the objects."""
    made = Queue(1_000_000, 1_000_000)
    held: list[object] = [[Element() for _ in range(100)]]
    made.queue.free(DESCRIBE, held)
    assert Element.living == 100 and made.queue.used_up == {}
    made.iterate()
    assert Element.living == 0 and held == [] and made.queue.waiting_count == 0


def test_work_that_outlives_its_connection() -> None:
    made = Queue()
    done: list[str] = []
    made.queue.work(DESCRIBE, steps(3, done, "a"))
    assert done == []
    while made.due:
        made.iterate()
    assert done == ["a"] * 3


@pytest.mark.parametrize(("slice_us", "iteration_us"), [(0, 1), (2, 1), (1, 1_000_001)])
def test_bounds(slice_us: int, iteration_us: int) -> None:
    with pytest.raises(InvalidArgumentError, match="slice_us must be 1 to iteration_us"):
        SliceQueue(print, print, slice_us=slice_us, iteration_us=iteration_us)


# --- connections


class Slow(Bench):
    """Channel whose requests take longer than a slice."""

    def __init__(self) -> None:
        super().__init__(slice_us=1)
        self.order: list[int] = []

    def on_request(self, reply: Reply, api_key: int, version: int, body: bytes) -> None:
        self.order.append(reply.correlation_id // 1000)
        sum(range(200))
        reply.answer(b"answer", 0)


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.end()
    assert made.failures == []


def pipelined(sender: int, count: int) -> bytes:
    return b"".join(request(METADATA, 5, sender * 1000 + number) for number in range(count))


def test_a_connection_that_pipelines_waits_for_the_others(slow: Slow) -> None:
    greedy, modest = slow.connect(), slow.connect()
    greedy.feed(pipelined(1, 50))
    assert slow.order == [1]
    modest.feed(pipelined(2, 1))       # waits behind one slice, not behind forty-nine
    for _ in range(4):
        slow.turn()
    assert 2 in slow.order[:3]
    slow.settle()
    assert [number for number, _ in replies(greedy.received)] == [1000 + number for number in range(50)]
    assert [number for number, _ in replies(modest.received)] == [2000]
    assert slow.channel.slices.deferred > 0


def test_connections_that_pipeline_share_the_loop(slow: Slow) -> None:
    wires = [slow.connect() for _ in range(5)]
    for sender, wire in enumerate(wires, 1):
        wire.feed(pipelined(sender, 20))
    slow.settle()
    for count in range(1, 20):
        shares = [slow.order[:count * 5].count(sender) for sender in range(1, 6)]
        assert max(shares) - min(shares) <= 2, slow.order
    for wire in wires:
        assert len(list(replies(wire.received))) == 20


def test_requests_during_a_wait_are_not_read(slow: Slow) -> None:
    wire = slow.connect()
    wire.feed(pipelined(1, 10))
    assert not wire.reading
    slow.settle()
    assert wire.reading and len(list(replies(wire.received))) == 10


def test_a_connection_that_ends_while_it_waits(slow: Slow) -> None:
    wire = slow.connect()
    wire.feed(pipelined(1, 10))
    wire.connection.connection_lost(None)
    slow.settle()
    assert slow.order == [1]


def test_the_end_of_a_frame_is_no_reason_to_wait(slow: Slow) -> None:
    wire = slow.connect()
    wire.feed(request(METADATA, 5, 1) + struct.pack(">i", 100))
    assert wire.reading and slow.channel.slices.waiting_count == 0


def test_a_peer_that_reads_fast_has_its_answers_in_slices() -> None:
    bench = Bench(slice_us=1)
    wire = bench.connect()
    wire.feed(b"".join(request(PIPELINED, 0, number) for number in range(10)))
    bench.settle()
    for reply, *_ in reversed(bench.requests):     # the first one lets all of them leave
        reply.answer(bytes(1 << 20), 0)
    bench.turn()
    assert 1 << 20 < len(wire.received) < 10 << 20
    bench.settle()
    assert [number for number, _ in replies(wire.received)] == list(range(10))
    bench.end()


def test_connections_that_are_woken_together_share_iterations() -> None:
    bench = Bench(slice_us=1)
    wires = [bench.connect() for _ in range(10)]
    for wire in wires:
        wire.feed(request(METADATA, 5, 1))
    bench.settle()
    for reply, *_ in bench.requests:
        reply.answer(b"answer", 0)
    bench.turn()
    assert 0 < sum(bool(wire.received) for wire in wires) < 10
    bench.settle()
    assert all(len(list(replies(wire.received))) == 1 for wire in wires)
    bench.end()


class Turns(Slow):
    """Record the length of each slice, by the request that runs in it."""

    def __init__(self) -> None:
        super().__init__()
        self.slices: list[int] = []

    def on_request(self, reply: Reply, api_key: int, version: int, body: bytes) -> None:
        self.slices.append(self.channel.slices.turn_ns)
        super().on_request(reply, api_key, version, body)


def test_those_that_were_just_read_from_share_an_iteration() -> None:
    made = Turns()
    wires = [made.connect() for _ in range(40)]
    for sender, wire in enumerate(wires, 1):
        wire.feed(pipelined(sender, 2))
    del made.slices[:]
    made.settle()
    whole = made.channel.slices.slice_ns
    assert min(made.slices) == whole // 8 and max(made.slices) == whole
    made.end()
