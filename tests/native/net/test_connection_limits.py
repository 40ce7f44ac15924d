"""Connections: peers that do not read, time-outs, memory, and how serving ends."""

import random
import struct
import time
from collections.abc import Iterator

import pytest

from kraft_native.file.buffer import idle_bytes, release_idle
from tests.native.wires import API_VERSIONS, BODIES, METADATA, PIPELINED, Bench, replies, request

MIB = 1 << 20


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.end()
    assert made.failures == []


# --- peers that do not read


def test_nothing_further_is_looked_at_while_replies_are_not_read(bench: Bench) -> None:
    bench.answer_with = b"x" * 1000
    wire = bench.connect()
    wire.take = 10
    wire.feed(request(METADATA, 1, 1))
    assert wire.get_write_buffer_size() == 998
    wire.feed(request(METADATA, 1, 2) + request(METADATA, 1, 3))
    assert len(bench.requests) == 1 and not wire.reading
    wire.read_all()
    bench.settle()
    assert [n for n, _ in replies(wire.received)] == [1, 2, 3] and wire.reading


def test_parts_stay_pinned_until_they_are_sent(bench: Bench) -> None:
    """A buffer whose reply is in flight must not be reused; CVE-2026-35554 was this bug."""
    wire = bench.connect()
    wire.take = 100_000
    memory = [bytearray(random.Random(n).randbytes(60_000)) for n in range(4)]
    expected = b"".join(bytes(part) for part in memory)
    wire.feed(request(METADATA, 1, 1))
    bench.requests[0][0].finish([bytes(4), *memory])
    bench.requests.clear()
    bench.settle()
    assert len(wire.received) == 100_000
    for part, pinned in zip(memory, [False, True, True, True], strict=True):
        if pinned:
            with pytest.raises(BufferError):
                part.append(0)
        else:
            part.append(0)
    wire.read_all()
    bench.settle()
    assert wire.received[8:] == expected
    for part in memory:
        part.append(0)


def test_parts_of_a_closed_connection_are_let_go(bench: Bench) -> None:
    wire = bench.connect()
    wire.take = 0
    memory = bytearray(60_000)
    wire.feed(request(PIPELINED, 0, 1) + request(PIPELINED, 0, 2))
    for reply, *_ in bench.requests:
        reply.finish([bytes(4), memory])
        bench.settle()
    bench.requests.clear()
    del reply
    with pytest.raises(BufferError):
        memory.append(0)
    wire.connection.close("told")
    wire.finish_closing()
    memory.append(0)


@pytest.mark.parametrize("parts", [
    [b""], [b"a"], [b"", b"b", b""], [b"a" * 16_384, b"b" * 16_385, b"c"],
    [bytes([n % 251]) * 20_000 for n in range(200)],
    [memoryview(b"0123456789" * 5000)[::1], bytearray(b"x" * 40_000), memoryview(bytearray(80_000)).cast("q")],
])
@pytest.mark.parametrize("take", [None, 0, 5, 17_000, 50_001])
def test_any_parts_arrive_whole(bench: Bench, parts: list[object], take: int | None) -> None:
    wire = bench.connect()
    wire.take = take
    wire.feed(request(METADATA, 1, 9))
    bench.requests[0][0].finish([struct.pack(">i", 9), *parts])
    bench.settle()
    wire.read_all()
    bench.settle()
    assert list(replies(wire.received)) == [(9, b"".join(bytes(part) for part in parts))]


def test_a_peer_that_does_not_read_is_closed_after_a_while() -> None:
    bench = Bench(reply_timeout_ms=30_000, rate_min_bytes_per_second=100)
    bench.answer_with = b"x" * 20_000
    wire = bench.connect()
    wire.take = 0
    wire.feed(request(METADATA, 1, 1))
    bench.channel.sweep(1_000)
    bench.channel.sweep(31_000)
    assert not wire.closing
    wire.move(1_000)
    bench.channel.sweep(41_000)
    assert not wire.closing, "what was read bought ten seconds"
    bench.channel.sweep(41_001)
    wire.finish_closing()
    assert wire.aborted and bench.channel.closed == {"slow_reader": 1}
    bench.end()


def test_a_refused_peer_that_does_not_read_is_closed_too() -> None:
    bench = Bench(reply_timeout_ms=30_000)
    bench.answer_with = b"x" * 20_000
    wire = bench.connect()
    wire.take = 0
    wire.feed(request(METADATA, 1, 1))
    wire.connection.resume_writing()
    wire.queue = []
    wire.feed(request(METADATA, 1, 1) + request(99, 0, 0))
    bench.channel.sweep(0)
    bench.channel.sweep(30_001)
    wire.finish_closing()
    assert wire.aborted and bench.channel.closed == {"api_key": 1}
    bench.end()


# --- time


def test_a_frame_must_be_whole_in_time() -> None:
    bench = Bench(frame_timeout_ms=10_000, rate_min_bytes_per_second=10)
    whole, slow, mute = bench.connect(), bench.connect(), bench.connect()
    slow.feed(request(API_VERSIONS, 0, 1, bytes(50))[:20])
    bench.channel.sweep(1_000)
    whole.feed(request(API_VERSIONS, 0, 1))
    bench.channel.sweep(11_000 + 2_000)
    assert not slow.closing, "the bytes that came bought two seconds"
    bench.channel.sweep(13_001)
    for wire in (whole, slow, mute):
        wire.finish_closing()
    assert slow.aborted and not whole.closing and not mute.closing
    assert bench.channel.closed == {"frame_timeout": 1}
    bench.end()


def test_a_trickle_of_whole_frames_is_no_slow_frame() -> None:
    bench = Bench(frame_timeout_ms=10_000)
    wire = bench.connect()
    data = request(API_VERSIONS, 0, 1)
    wire.feed(data[:7])
    for second in range(0, 100, 6):
        bench.channel.sweep(second * 1_000)
        wire.feed(data[7:] + data[:7])
    assert not wire.closing
    bench.end()


def test_the_time_that_we_do_not_read_is_not_counted() -> None:
    bench = Bench(frame_timeout_ms=10_000)
    wire = bench.connect()
    wire.feed(request(METADATA, 1, 1) + request(METADATA, 1, 2)[:9])
    for second in range(0, 100, 9):
        bench.channel.sweep(second * 1_000)
    assert not wire.closing
    bench.requests[0][0].answer(b"", 0)
    bench.settle()
    bench.channel.sweep(100_000)
    bench.channel.sweep(109_000)
    assert not wire.closing and wire.reading
    bench.channel.sweep(111_000)
    assert wire.aborted
    bench.end()


def test_idle_connections_are_closed() -> None:
    bench = Bench(idle_timeout_ms=600_000)
    idle, busy, waiting = bench.connect(), bench.connect(), bench.connect()
    bench.channel.sweep(0)
    waiting.feed(request(METADATA, 1, 1))
    for now_ms in range(0, 600_000, 60_000):
        busy.feed(request(API_VERSIONS, 0, 1))
        bench.channel.sweep(now_ms)
    bench.channel.sweep(600_001)
    for wire in (idle, busy, waiting):
        wire.finish_closing()
    assert idle.aborted and not busy.closing and not waiting.closing
    assert bench.channel.closed == {"idle": 1}
    bench.end()


def test_idle_indefinitely_when_configured() -> None:
    bench = Bench(idle_timeout_ms=-1)
    wire = bench.connect()
    bench.channel.sweep(0)
    bench.channel.sweep(1 << 40)
    assert not wire.closing
    bench.end()


# --- the time of the loop


@pytest.mark.parametrize("frames", [1, 2])
def test_one_read_of_a_large_frame_is_bounded(bench: Bench, frames: int) -> None:
    """A socket holds up to 32 MiB, and the second large frame of a connection gets its room at once."""
    bench.answer_with = b"ok"
    wire = bench.connect()
    sizes = []
    for number in range(frames):
        left = memoryview(request(METADATA, 1, number, bytes(40 * MIB)))
        while left:
            with memoryview(wire.connection.get_buffer(-1)) as room:
                count = min(len(room), len(left))
                room[:count] = left[:count]
                sizes.append(len(room))
            wire.connection.buffer_updated(count)
            left = left[count:]
        bench.settle()
    assert max(sizes) == MIB
    assert [number for number, _ in replies(wire.received)] == list(range(frames))


def test_the_time_of_a_read_counts() -> None:
    """The loop copies the bytes between `get_buffer` and `buffer_updated`."""
    bench = Bench(slice_us=2_000)
    slow, other = bench.connect(), bench.connect()
    data = request(PIPELINED, 0, 1)
    with memoryview(slow.connection.get_buffer(-1)) as room:
        room[:len(data)] = data
    end_ns = time.monotonic_ns() + 2_000_000
    while time.monotonic_ns() < end_ns:
        pass
    slow.connection.buffer_updated(len(data))
    other.feed(request(PIPELINED, 0, 2))
    assert len(bench.requests) == 1, "the other one waits for the next iteration"
    bench.settle()
    assert len(bench.requests) == 2
    bench.end()


# --- memory


def test_announcing_costs_nothing() -> None:
    """1,000 connections announce 100 MiB each and send a little."""
    bench = Bench(memory_bytes=64 * MIB)
    wires = [bench.connect() for _ in range(1000)]
    for wire in wires:
        wire.feed(struct.pack(">i", 100 * MIB) + b"x" * 100)
    assert bench.memory.peak_bytes <= 1000 * 4096
    assert bench.memory.waiting_users == 0
    assert all(wire.reading for wire in wires)
    bench.end()


def test_memory_follows_what_has_arrived() -> None:
    release_idle()      # a larger block that an earlier test left would be used instead
    bench = Bench()
    wire = bench.connect()
    data = struct.pack(">i", 100 * MIB) + bytes(3 * MIB)
    sent = 0
    while sent < len(data):
        wire.feed(data[sent : sent + 10_000])
        sent += 10_000
        assert bench.memory.used_bytes <= 3 * sent + 160_000
    bench.end()


@pytest.mark.parametrize(("size", "at_once"), [(MIB - 9, True), (MIB + MIB // 8 - 9, True), (MIB + MIB // 7, False)])
def test_room_for_a_frame_like_the_last_one_is_made_at_once(size: int, at_once: bool) -> None:
    """Batches of one producer differ little in size."""
    bench = Bench()
    wire = bench.connect()
    wire.feed(request(METADATA, 1, 1, bytes(MIB)))
    bench.requests.pop()[0].answer(b"", 0)
    bench.settle()
    wire.feed(struct.pack(">i", size) + bytes(10_000))
    assert (bench.memory.used_bytes >= size) == at_once
    bench.end()


def test_the_limit_holds_and_everybody_gets_through() -> None:
    """Requests of ten times the limit are in flight at once: connections wait, and every request is served in the
    end."""
    bench = Bench(memory_bytes=4 * MIB)
    bench.answer_with = b"ok"
    size = 2 * MIB
    wires = [bench.connect() for _ in range(20)]
    left = [memoryview(request(METADATA, 1, n, bytes(size))) for n in range(20)]
    waited = 0
    for _ in range(2000):
        for index, wire in enumerate(wires):
            piece = left[index][:100_000]
            wire.feed(piece)
            left[index] = left[index][len(piece) - len(wire.unread) :]
        bench.settle()
        bench.requests.clear()
        waited = max(waited, bench.memory.waiting_users)
        if not any(left):
            break
    assert not any(left)
    assert all(list(replies(wire.received)) == [(n, b"ok")] for n, wire in enumerate(wires))
    assert waited > 0
    assert bench.memory.peak_bytes <= 4 * MIB + 2 * size + 20 * 256 * 1024
    assert bench.memory.used_bytes == 0 and bench.memory.waiting_users == 0
    bench.end()


def test_a_waiting_connection_that_goes_makes_way() -> None:
    bench = Bench(memory_bytes=1 * MIB)
    wires = [bench.connect() for _ in range(4)]
    for wire in wires:
        wire.feed(struct.pack(">i", 50 * MIB) + bytes(2 * MIB))
    reading = [wire for wire in wires if wire.reading]
    assert len(reading) == 1 and bench.memory.waiting_users == 3
    while wires:
        reading = [wire for wire in wires if wire.reading]
        assert reading, "somebody always gets on"
        for wire in reading:
            wire.connection.connection_lost(None)
            wires.remove(wire)
        bench.settle()
    bench.end()


def test_bodies_count_until_they_are_answered(bench: Bench) -> None:
    wire = bench.connect()
    wire.feed(request(METADATA, 1, 1, bytes(1000)))
    assert bench.memory.used_bytes == 1000
    bench.requests[0][0].answer(b"", 0)
    assert bench.memory.used_bytes == 0


def test_stalled_connections_keep_little_when_memory_is_scarce() -> None:
    bench = Bench(memory_bytes=1 * MIB)
    wires = [bench.connect() for _ in range(50)]
    for wire in wires:
        wire.feed(request(METADATA, 1, 1))
    for wire in wires:
        wire.feed(request(METADATA, 1, 1) * 20_000)
    assert not any(wire.reading for wire in wires)
    assert bench.memory.used_bytes <= 1 * MIB + 50 * 8192
    bench.end()


# --- the end


def test_draining_answers_pending_requests(bench: Bench) -> None:
    quiet, working, blocked = (bench.connect() for _ in range(3))
    working.feed(request(METADATA, 1, 1) + request(METADATA, 1, 2))
    blocked.take = 0
    blocked.feed(request(API_VERSIONS, 0, 3))
    bench.channel.drain()
    bench.settle()
    assert quiet.lost and not working.closing and not blocked.closing
    bench.requests[0][0].answer(b"one", 0)
    bench.settle()
    assert working.lost and list(replies(working.received)) == [(1, b"one")]
    blocked.read_all()
    bench.settle()
    assert blocked.lost and list(replies(blocked.received)) == [(3, BODIES[0])]
    assert bench.channel.closed == {"drained": 3}


def test_refused_connections_are_counted_and_reported_once(bench: Bench) -> None:
    bench.refuse = "connections"
    wire = bench.connect()
    wire.finish_closing()
    assert wire.aborted and bench.channel.closed == {"connections": 1}
    assert bench.closed_connections == [wire.connection] and bench.channel.connections_opened == 1


# --- replies as memory


def test_an_answer_counts_until_it_has_left(bench: Bench) -> None:
    wire = bench.connect()
    wire.feed(request(PIPELINED, 0, 1) + request(PIPELINED, 0, 2))
    (first, *_), (second, *_) = bench.requests
    second.answer(b"x" * MIB, 0)       # behind one that is open
    assert bench.memory.used_bytes > MIB
    wire.take = 1000
    first.answer(b"y" * MIB, 0)
    bench.settle()
    assert bench.memory.unread_bytes > 2 * MIB - 4096 and bench.memory.used_bytes == bench.memory.unread_bytes
    wire.read_all()
    bench.settle()
    assert (bench.memory.unread_bytes, bench.memory.used_bytes) == (0, 0)
    bench.requests.clear()
    del first, second


def test_the_largest_unread_answers_are_given_up() -> None:
    bench = Bench(memory_bytes=8 * MIB)
    wires = [bench.connect() for _ in range(5)]
    for megabytes, wire in zip((1, 2, 1, 0, 1), wires, strict=True):
        wire.take = 0
        bench.answer_with = b"x" * (megabytes * MIB or 100)
        wire.feed(request(METADATA, 1, 1))
    assert [wire.aborted for wire in wires] == [False, True, False, False, False]
    assert 3 * MIB <= bench.memory.unread_bytes <= 4 * MIB
    assert bench.memory.cut_total == 1 and wires[1].connection.reason == "slow_reader"
    wires[0].read_all()
    bench.settle()
    assert len(list(replies(wires[0].received))) == 1
    bench.requests.clear()
    bench.end()


def test_an_answer_above_the_limit_is_not_sent() -> None:
    bench = Bench(answer_bytes_max=MIB)
    wires = [bench.connect() for _ in range(2)]
    for extra, wire in enumerate(wires):
        bench.answer_with = b"x" * (MIB - 4 + extra)       # with the response header
        wire.feed(request(METADATA, 1, 1))
        bench.settle()
    assert [len(wire.received) for wire in wires] == [MIB + 4, 0]
    assert wires[1].connection.reason == "answer_size" and bench.memory.used_bytes == 0
    bench.requests.clear()
    bench.end()


@pytest.mark.parametrize("stall", ["slice", "write"])
def test_one_incomplete_frame_exceeds_the_limit(stall: str) -> None:
    """A connection that exceeds the limit keeps that privilege while its slice is spent, and while its peer reads no
    answer. Otherwise the next connection exceeds the limit too, and so on."""
    bench = Bench(memory_bytes=4 * MIB, slice_us=1 if stall == "slice" else 1_000_000)
    wires = [bench.connect() for _ in range(20)]
    left = dict.fromkeys(wires, 11 * MIB)
    for wire in wires:
        wire.take = 0
        wire.feed(request(PIPELINED, 0, 1) + struct.pack(">i", 12 * MIB))
        bench.settle()
    held = dict(zip(wires, [reply for reply, *_ in bench.requests], strict=True))
    for _ in range(200):
        for wire in wires:
            wire.feed(piece := bytes(min(left[wire], MIB)))
            left[wire] -= len(piece) - len(wire.unread)
            if stall == "write" and left[wire] < 6 * MIB and wire in held:
                held.pop(wire).answer(bytes(1000), 0)
        bench.settle()
    assert bench.memory.waiting_users > 0
    assert bench.memory.peak_bytes <= 4 * MIB + 12 * MIB + 2 * MIB
    held.clear()
    bench.end()


def test_incomplete_frames_leave_no_idle_memory() -> None:
    """The sum of what many connections held one after the other may be far above the limit."""
    release_idle()
    bench = Bench()
    for _ in range(10):
        wire = bench.connect()
        wire.feed(struct.pack(">i", 12 * MIB) + bytes(10 * MIB))
        wire.connection.connection_lost(None)
    assert idle_bytes() <= 2 * MIB
    bench.end()
