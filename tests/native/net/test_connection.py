"""Connections: frames, order of replies, stalls, refusals, faults. Limits: `test_connection_limits.py`."""

import random
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_native.base.errors import CorruptRecordError, InvalidArgumentError, MalformedMessageError, StorageError
from kraft_native.net.frames import RequestMemory
from tests.native.wires import (
    API_VERSIONS,
    BODIES,
    INVALID,
    METADATA,
    PIPELINED,
    UNSUPPORTED,
    Bench,
    Wire,
    frame,
    replies,
    request,
)

MIB = 1 << 20


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.end()
    assert made.failures == []


def named(name: bytes = b"client", version: bytes = b"1.0") -> bytes:
    """Build the body of ApiVersions from version 3 on."""
    return bytes([len(name) + 1]) + name + bytes([len(version) + 1]) + version + b"\0"


# --- ApiVersions


@pytest.mark.parametrize("version", range(5))
def test_api_versions_is_answered_at_once(bench: Bench, version: int) -> None:
    wire = bench.connect()
    body, tags = (named(), b"\0") if version >= 3 else (b"", b"")
    wire.feed(request(API_VERSIONS, version, 77, body, tags=tags))
    assert list(replies(wire.received)) == [(77, BODIES[version])]


@pytest.mark.parametrize("version", [5, 6, 1000, -1])
def test_unknown_version_of_api_versions_is_answered_in_version_0(bench: Bench, version: int) -> None:
    wire = bench.connect()
    wire.feed(request(API_VERSIONS, version, 78, b"whatever", tags=b"\0" if version > 0 else b""))
    assert list(replies(wire.received)) == [(78, UNSUPPORTED)]
    assert not wire.closing


@pytest.mark.parametrize("name", [b"", b"-client", b"client.", b"two words", b"caf\xc3\xa9"])
def test_improper_client_names_are_reported(bench: Bench, name: bytes) -> None:
    wire = bench.connect()
    wire.feed(request(API_VERSIONS, 3, 1, named(name), tags=b"\0")
              + request(API_VERSIONS, 4, 2, named(b"a", name), tags=b"\0"))
    assert list(replies(wire.received)) == [(1, INVALID[3]), (2, INVALID[4])]


@pytest.mark.parametrize("body", [
    b"", b"\0", b"\x05ab", b"\x02a\x02b", b"\x02a\x02b\x01", b"\xff\xff\xff\xff\x0f", named()[:-1] + b"\x01\x05\x09x",
])
def test_malformed_api_versions_closes(bench: Bench, body: bytes) -> None:
    wire = bench.connect()
    wire.feed(request(API_VERSIONS, 3, 1, body, tags=b"\0"))
    assert wire.lost and wire.received == b""
    assert bench.channel.closed == {"malformed": 1}


# --- frames


@given(
    sizes=st.lists(st.integers(0, 3000) | st.sampled_from([65_536, 131_064, 131_072, 200_000, 262_144, 700_000]),
                   min_size=1, max_size=6),
    at_once=st.sampled_from([1 << 30, 262_144, 100_003, 4096, 1013]),
)
@settings(max_examples=60, deadline=None)
def test_any_cut_of_the_stream_gives_the_same_requests(sizes: list[int], at_once: int) -> None:
    bench = Bench()
    bench.answer_with = b"ok"
    wire = bench.connect()
    bodies = [random.Random(size).randbytes(size) for size in sizes]
    for index, body in enumerate(bodies):
        wire.feed(request(METADATA, 1, index, body), at_once)
    assert [body for *_, body in bench.requests] == bodies
    assert list(replies(wire.received)) == [(index, b"ok") for index in range(len(bodies))]
    assert bench.memory.used_bytes == 0
    bench.end()


def test_byte_by_byte(bench: Bench) -> None:
    bench.answer_with = b"ok"
    wire = bench.connect()
    stream = b"".join(request(METADATA, 1, n, b"x" * n) + request(API_VERSIONS, 0, n) for n in range(40))
    wire.feed(stream, 1)
    assert list(replies(wire.received)) == [reply for n in range(40) for reply in ((n, b"ok"), (n, BODIES[0]))]


def test_many_requests_of_one_read_leave_in_one_write(bench: Bench) -> None:
    bench.answer_with = b"ok"
    wire = bench.connect()
    wire.feed(b"".join(request(API_VERSIONS, 0, n) + request(METADATA, 1, n) for n in range(100)))
    assert wire.writes == 1
    assert len(list(replies(wire.received))) == 200


@pytest.mark.parametrize("length", [-1, -(2**31), 100 * MIB + 1, 2**31 - 1])
def test_lengths_out_of_range_close_without_a_reply(bench: Bench, length: int) -> None:
    wire = bench.connect()
    wire.feed(request(API_VERSIONS, 0, 5) + struct.pack(">i", length) + b"x" * 100)
    assert list(replies(wire.received)) == [(5, BODIES[0])], "what came before is answered"
    assert wire.lost and bench.channel.closed == {"frame_size": 1}
    assert bench.memory.peak_bytes == 0


def test_the_limit_itself_is_allowed() -> None:
    bench = Bench(request_bytes_max=1000)
    bench.answer_with = b"ok"
    wire = bench.connect()
    wire.feed(request(METADATA, 1, 1, b"x" * (1000 - 14)))
    assert len(bench.requests) == 1 and not wire.closing
    wire.feed(request(METADATA, 1, 1, b"x" * (1000 - 13)))
    assert len(bench.requests) == 1 and wire.lost
    bench.end()


@pytest.mark.parametrize("hello", [
    b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
])
def test_other_protocols_are_turned_away(bench: Bench, hello: bytes) -> None:
    wire = bench.connect()
    wire.feed(hello)
    assert wire.lost and wire.received == b"" and bench.channel.closed == {"frame_size": 1}


@pytest.mark.parametrize(("data", "reason"), [
    (frame(b""), "header"),
    (frame(b"\0\x03\0\x01"), "header"),
    (frame(struct.pack(">hhi", METADATA, 1, 1)), "header"),
    (frame(struct.pack(">hhih", METADATA, 1, 1, -2)), "header"),
    (frame(struct.pack(">hhih", METADATA, 1, 1, 5) + b"abcd"), "header"),
    (request(METADATA, 9, 1, client=None), "header"),
    (request(METADATA, 9, 1, tags=b"\x01"), "header"),
    (request(METADATA, 9, 1, tags=b"\xff\xff\xff\xff\x0f"), "header"),
    (request(METADATA, 9, 1, tags=b"\x01\x00\xff\xff\xff\xff\x0f"), "header"),
    (request(METADATA, 0, 1), "api_version"),
    (request(METADATA, 14, 1, tags=b"\0"), "api_version"),
    (request(METADATA, -1, 1), "api_version"),
    (request(4, 0, 1), "api_key"),
    (request(1000, 0, 1), "api_key"),
    (request(1024, 0, 1), "api_key"),
    (request(-1, 0, 1), "api_key"),
    (request(-32768, 0, 1), "api_key"),
])
def test_an_unanswerable_request_closes_after_earlier_replies(bench: Bench, data: bytes, reason: str) -> None:
    wire = bench.connect()
    wire.feed(request(METADATA, 1, 1) + data + request(API_VERSIONS, 0, 3))
    assert not wire.closing, "an earlier request is being worked on"
    bench.requests[0][0].answer(b"first", 0)
    bench.settle()
    assert list(replies(wire.received)) == [(1, b"first")]
    assert wire.lost and bench.channel.closed == {reason: 1}


def test_header_fields_reach_the_python_side(bench: Bench) -> None:
    bench.answer_with = b""
    wire = bench.connect()
    wire.feed(request(METADATA, 9, -5, b"body", client=b"me", tags=b"\x02\x00\x01x\x63\x00")
              + request(METADATA, 1, 6, client=None) + request(METADATA, 1, 7, client=b"")
              + request(METADATA, 1, 8, client=b"me"))
    seen = [(r.correlation_id, r.client_id, key, version, body) for r, key, version, body in bench.requests]
    assert seen == [(-5, b"me", METADATA, 9, b"body"), (6, None, METADATA, 1, b""), (7, b"", METADATA, 1, b""),
                    (8, b"me", METADATA, 1, b"")]
    assert wire.connection.peer_host == "192.0.2.1" and wire.connection.peer_port == 4711
    assert bench.channel.requests() == {METADATA: 4}


# --- order and stalls


def test_the_python_side_gets_one_request_at_a_time(bench: Bench) -> None:
    wire = bench.connect()
    wire.feed(b"".join(request(METADATA, 1, n) for n in range(3)) + request(API_VERSIONS, 0, 3))
    for n in range(3):
        assert len(bench.requests) == n + 1
        assert bench.requests[n][0].sink is wire.connection
        bench.requests[n][0].answer(b"%d" % n, 0)
        assert bench.requests[n][0].parts is not None
        bench.settle()
    assert list(replies(wire.received)) == [(0, b"0"), (1, b"1"), (2, b"2"), (3, BODIES[0])]
    assert wire.reading


def test_the_python_side_gets_a_request_when_all_before_it_are_answered(bench: Bench) -> None:
    """The state in its reply must not be older than that in the reply before it."""
    wire = bench.connect()
    wire.feed(request(PIPELINED, 0, 0) + request(PIPELINED, 0, 1) + request(METADATA, 1, 2, b"body")
              + request(METADATA, 1, 3))
    assert len(bench.requests) == 2
    bench.requests[1][0].answer(b"1", 0)
    bench.settle()
    assert len(bench.requests) == 2
    bench.requests[0][0].answer(b"0", 0)
    bench.settle()
    assert [(reply.correlation_id, body) for reply, _, _, body in bench.requests[2:]] == [(2, b"body")]
    bench.answer_with = b"3"
    bench.requests[2][0].answer(b"2", 0)
    bench.settle()
    assert list(replies(wire.received)) == [(0, b"0"), (1, b"1"), (2, b"2"), (3, b"3")]
    assert wire.reading and wire.connection.in_progress == 0


def test_a_request_that_waits_for_its_turn_may_be_refused_or_lost(bench: Bench) -> None:
    waiting = [bench.connect() for _ in range(3)]
    for wire in waiting:
        wire.feed(request(PIPELINED, 0, 0) + request(METADATA, 1, 1, b"body"))
    first = [reply for reply, *_ in bench.requests]
    waiting[0].connection.connection_lost(None)
    for reply in first:
        reply.answer(b"0", 0)
    bench.raises = MalformedMessageError("bad")
    bench.settle()
    assert len(bench.requests) == 3
    assert waiting[0].received == b""
    assert all(list(replies(wire.received)) == [(0, b"0")] for wire in waiting[1:])
    assert bench.channel.closed == {"peer": 1, "malformed": 2}


def test_pipelined_requests_may_finish_in_any_order(bench: Bench) -> None:
    wire = bench.connect()
    wire.feed(b"".join(request(PIPELINED, 0, n) for n in range(6)) + request(API_VERSIONS, 0, 6))
    assert len(bench.requests) == 6 and wire.connection.in_progress == 7
    late = [bench.requests[n][0] for n in (5, 3, 1, 0, 4, 2)]
    for reply in late[:3]:
        reply.answer(b"%d" % reply.correlation_id, 0)
        bench.settle()
        assert wire.received == b""
    late[3].answer(b"0", 0)
    late[4].skip()
    bench.settle()
    assert list(replies(wire.received)) == [(0, b"0"), (1, b"1")]
    late[5].answer(b"2", 0)
    bench.settle()
    assert list(replies(wire.received)) == [(0, b"0"), (1, b"1"), (2, b"2"), (3, b"3"), (5, b"5"), (6, BODIES[0])]
    assert wire.connection.in_progress == 0 and bench.channel.requests_in_progress == 0


def test_replies_of_one_turn_leave_in_one_write(bench: Bench) -> None:
    wires = [bench.connect() for _ in range(3)]
    for wire in wires:
        wire.feed(b"".join(request(PIPELINED, 0, n) for n in range(10)))
    for reply, *_ in bench.requests:
        reply.answer(b"x", 0)
    assert len(bench.turns) == 1, "one callback however many connections"
    bench.turn()
    assert [wire.writes for wire in wires] == [1, 1, 1]
    assert all(len(list(replies(wire.received))) == 10 for wire in wires)


def test_requests_in_progress_are_bounded() -> None:
    bench = Bench(requests_in_progress_max=4)
    wire = bench.connect()
    wire.feed(b"".join(request(PIPELINED, 0, n) for n in range(10)))
    assert len(bench.requests) == 4 and not wire.reading
    for done in range(10):
        assert len(bench.requests) == min(10, done + 4)
        bench.requests[done][0].answer(b"", 0)
        bench.settle()
    assert wire.reading
    assert [n for n, _ in replies(wire.received)] == list(range(10))
    bench.end()


def test_a_stall_pauses_reading_with_the_first_bytes_that_come(bench: Bench) -> None:
    wire = bench.connect()
    wire.feed(request(METADATA, 1, 1))
    assert wire.reading, "a stall that ends within the turn costs nothing"
    wire.feed(request(METADATA, 1, 2))
    assert not wire.reading
    for n in range(2):
        bench.requests[n][0].answer(b"", 0)
        bench.settle()
    assert wire.reading and len(list(replies(wire.received))) == 2


def test_refusing_later_closes_after_earlier_replies(bench: Bench) -> None:
    wire = bench.connect()
    wire.feed(b"".join(request(PIPELINED, 0, n) for n in range(3)))
    first, second, third = (reply for reply, *_ in bench.requests)
    third.answer(b"3", 0)
    second.refuse("acks_0_failed")
    bench.settle()
    assert not wire.closing
    first.answer(b"1", 0)
    bench.settle()
    assert list(replies(wire.received)) == [(0, b"1")]
    assert wire.lost and bench.channel.closed == {"acks_0_failed": 1}
    assert third.abandoned


# --- faults


def test_a_malformed_body_closes_and_is_not_our_fault(bench: Bench) -> None:
    bench.raises = CorruptRecordError("a body that cannot be")
    wire = bench.connect()
    wire.feed(request(METADATA, 1, 1) + request(METADATA, 1, 2))
    assert wire.lost and bench.channel.closed == {"malformed": 1}


@pytest.mark.parametrize("fault", [ZeroDivisionError("ours"), StorageError("/x", 5), AssertionError("broken")])
def test_a_fault_of_our_own_is_reported_and_closes(fault: BaseException) -> None:
    bench = Bench()
    wires = [bench.connect() for _ in range(2)]
    wires[0].feed(request(API_VERSIONS, 0, 1))
    bench.raises = fault
    wires[0].feed(request(API_VERSIONS, 0, 1) + request(METADATA, 1, 2))
    assert bench.failures == [fault] and bench.channel.failed
    assert wires[0].lost and wires[0].aborted and bench.channel.closed == {"failure": 1}
    wires[1].feed(request(API_VERSIONS, 0, 1))
    assert len(list(replies(wires[1].received))) == 1, "others do not get what the failed one was to get"
    fault.__traceback__ = None
    bench.end()


def test_a_reply_that_cannot_be_sent_is_our_fault() -> None:
    bench = Bench()
    wire = bench.connect()
    wire.feed(request(METADATA, 1, 1))
    bench.requests[0][0].finish([b"head", "not a buffer"])
    bench.settle()
    wire.finish_closing()
    assert [type(failure) for failure in bench.failures] == [TypeError]
    assert bench.channel.closed == {"failure": 1}
    bench.end()


def test_replies_of_a_lost_connection_go_nowhere(bench: Bench) -> None:
    wire = bench.connect()
    wire.feed(b"".join(request(PIPELINED, 0, n, b"x" * 500) for n in range(5)))
    assert bench.memory.used_bytes == 2500
    wire.connection.connection_lost(ConnectionResetError())
    assert bench.memory.used_bytes == 0 and bench.closed_connections == [wire.connection]
    for reply, *_ in bench.requests:
        assert reply.abandoned
        reply.answer(b"late", 0)
    bench.settle()
    assert wire.received == b"" and bench.channel.closed == {"peer": 1}


def test_a_peer_that_ends_its_side_awaits_nothing(bench: Bench) -> None:
    wire = bench.connect()
    wire.feed(request(PIPELINED, 0, 1))
    assert wire.connection.eof_received() is False
    bench.requests[0][0].answer(b"late", 0)
    bench.settle()
    assert wire.received == b""


def test_closing_from_inside_a_request_is_safe() -> None:
    """The frame in progress may lie in memory that closing releases."""

    class Closing(Bench):
        def on_request(self, *arguments: object) -> None:
            super().on_request(*arguments)
            wire.connection.close("told")

    closing = Closing()
    wire = closing.connect()
    wire.feed(request(METADATA, 1, 1, b"x" * 700_000) + request(METADATA, 1, 2), 50_000)
    assert wire.lost and closing.channel.closed == {"told": 1} and len(closing.requests) == 1
    closing.end()


# --- arguments


@pytest.mark.parametrize("name", ["request_bytes_max", "requests_in_progress_max", "frame_timeout_ms",
                                  "idle_timeout_ms", "reply_timeout_ms", "rate_min_bytes_per_second"])
def test_limits_out_of_range_are_named(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} must be .* not -2"):
        Bench(**{name: -2})


def test_arguments_of_serve(bench: Bench) -> None:
    for arguments, name in (((-1, 0, 0, 0), "api_key"), ((1024, 0, 0, 0), "api_key"), ((1, -1, 0, 0), "first_version"),
                            ((1, 2, 1, 0), "last_version"), ((1, 0, 0, -1), "flexible_from")):
        with pytest.raises(InvalidArgumentError, match=name):
            bench.channel.serve(*arguments)
    with pytest.raises(InvalidArgumentError, match="in a row"):
        bench.channel.serve_api_versions({0: b"", 2: b""}, {0: b"", 2: b""}, b"")
    with pytest.raises(InvalidArgumentError, match="in a row"):
        bench.channel.serve_api_versions({0: b""}, {}, b"")
    with pytest.raises(InvalidArgumentError, match="limit_bytes"):
        RequestMemory(0)


def test_withdrawn_apis_are_unknown(bench: Bench) -> None:
    bench.channel.withdraw(METADATA)
    wire: Wire = bench.connect()
    wire.feed(request(METADATA, 1, 1))
    assert bench.channel.closed == {"api_key": 1}


def test_connections_end_in_the_order_of_their_arrival(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation must not depend on where its objects lie in memory."""
    wires = [bench.connect() for _ in range(30)]
    aborted: list[Wire] = []
    monkeypatch.setattr(Wire, "abort", lambda wire: aborted.append(wire))
    bench.channel.abort("shutdown")
    assert [wires.index(wire) for wire in aborted] == list(range(30))
    for wire in wires:
        wire.closing = True
        wire.finish_closing()
    assert not bench.channel.connections
