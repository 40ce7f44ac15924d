"""The load generator against a server in this process with scripted answers."""

import itertools
import socket
import struct
import threading
import time

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import InvalidArgumentError, OperationError
from kraft_native.batch.batch import walk
from kraft_native.batch.records import BatchBuilder
from kraft_native.bench.load_generator import Load, LoadFrame, LoadSpec

HEADER = struct.Struct(">hhi")


class Server(threading.Thread):
    """Answer each frame with the result of `answer(correlation_id, body)`; None closes the connection."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.seen = []

    def run(self):
        connections = []
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                break
            thread = threading.Thread(target=self.serve, args=(connection,), daemon=True)
            thread.start()
            connections.append((connection, thread))
        for connection, thread in connections:
            connection.close()
            thread.join()

    def serve(self, connection):
        stream = connection.makefile("rb")
        with connection, stream:
            while head := stream.read(4):
                frame = stream.read(int.from_bytes(head, "big"))
                correlation = HEADER.unpack_from(frame)[2]
                self.seen.append(frame)
                reply = self.answer(correlation, frame)
                if reply is None:
                    return
                if reply:
                    connection.sendall(len(reply).to_bytes(4, "big") + reply)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.join()


@pytest.fixture
def serve():
    servers, sockets = [], []

    def start(answer, connections=1):
        server = Server(answer)
        server.start()
        servers.append(server)
        for _ in range(connections):
            each = socket.create_connection(server.address)
            each.setblocking(False)
            sockets.append(each)
        return server, [each.fileno() for each in sockets[-connections:]]

    yield start
    for each in sockets:
        each.close()
    for server in servers:
        server.close()


def request(body=b""):
    frame = HEADER.pack(18, 0, 0) + body
    return len(frame).to_bytes(4, "big") + frame


def echo(correlation, frame):
    return correlation.to_bytes(4, "big") + frame[8:]


def test_a_closed_loop_answers_every_request(serve):
    server, filenos = serve(echo, connections=3)
    result = Load([LoadSpec(fileno, request(), in_flight=4) for fileno in filenos]).run(5, requests_max=3000, slots=5)
    assert result.requests == 3000 == len(server.seen) == sum(count for _, count in result.latency)
    assert result.errors == 0
    assert result.bytes_received == 3000 * 8
    assert result.bytes_sent == 3000 * 12
    assert sum(result.slot_requests) == 3000
    assert [value for value, _ in result.latency] == sorted(value for value, _ in result.latency)


def test_correlation_ids_count_up_on_each_connection(serve):
    server, filenos = serve(echo)
    Load([LoadSpec(filenos[0], request(), in_flight=8)]).run(5, requests_max=100)
    assert [HEADER.unpack_from(frame)[2] for frame in server.seen] == list(range(100))


def test_large_frames_go_from_their_own_memory(serve):
    body = bytes(range(256)) * 2000
    server, filenos = serve(lambda correlation, frame: correlation.to_bytes(4, "big"))
    result = Load([LoadSpec(filenos[0], request(body), in_flight=3)]).run(10, requests_max=20)
    assert result.requests == 20
    assert all(frame[8:] == body for frame in server.seen)


def test_an_open_loop_counts_from_when_a_request_was_due(serve):
    """The server stalls once for 50 ms: requests that were due meanwhile waited, and their latency shows it."""
    stall = iter(itertools.chain([0.05], itertools.repeat(0)))

    def slow_once(correlation, frame):
        time.sleep(next(stall))  # the stall is what the test measures
        return echo(correlation, frame)

    _, filenos = serve(slow_once)
    result = Load([LoadSpec(filenos[0], request(), interval_ns=1_000_000)]).run(0.2)
    assert 150 <= result.requests <= 201
    late = sum(count for value, count in result.latency if value > 5_000_000)
    assert late >= 30


def test_error_codes_are_counted(serve):
    def fails_every_third(correlation, frame):
        return correlation.to_bytes(4, "big") + (7 if correlation % 3 == 2 else 0).to_bytes(2, "big")

    _, filenos = serve(fails_every_third)
    result = Load([LoadSpec(filenos[0], request(), error_position=4)]).run(5, requests_max=30)
    assert (result.errors, result.first_error) == (10, ErrorCode.REQUEST_TIMED_OUT)


def batch_at(offset, records=3, value=b"x" * 32):
    builder = BatchBuilder()
    for _ in range(records):
        builder.append(value)
    return bytes(builder.build(offset))


def test_a_fetch_reads_on_and_wraps_at_the_end(serve):
    log = {offset: batch_at(offset) for offset in (0, 3, 6)}

    def fetch(correlation, frame):
        records = log.get(int.from_bytes(frame[8:16], "big"), b"")
        return correlation.to_bytes(4, "big") + len(records).to_bytes(4, "big") + records

    server, filenos = serve(fetch)
    load = Load([LoadSpec(filenos[0], request(bytes(8)), fetch_offset_position=8, records_position=4, wrap=True)])
    result = load.run(5, requests_max=8)
    assert [int.from_bytes(frame[8:16], "big") for frame in server.seen] == [0, 3, 6, 9, 0, 3, 6, 9]
    assert result.records == 6 * 3
    assert result.records_bytes == 2 * sum(map(len, log.values()))


@pytest.mark.parametrize(("record_bytes", "cut"), [(10, 0), (60_000, 0), (60_000, 7), (700_000, 300_000)])
def test_batches_of_a_fetch_are_skipped_unparsed(serve, record_bytes, cut):
    """Three batches in a reply, the last one possibly cut, and bytes behind them: the start of the next reply is
    found."""
    batches = [batch_at(offset, 3, bytes(record_bytes)) for offset in (0, 3, 6)]
    whole = 2 if cut else 3

    def fetch(correlation, frame):
        first = int.from_bytes(frame[8:16], "big") // 3
        found = b"".join(batches[first:])
        found = found[:len(found) - cut] if first == 0 else found
        return correlation.to_bytes(4, "big") + len(found).to_bytes(4, "big") + found + b"tags"

    server, filenos = serve(fetch)
    load = Load([LoadSpec(filenos[0], request(bytes(8)), fetch_offset_position=8, records_position=4, wrap=True)])
    result = load.run(10, requests_max=5)
    requested = [int.from_bytes(frame[8:16], "big") for frame in server.seen]
    assert requested == ([0, 6, 9, 0, 6] if cut else [0, 9, 0, 9, 0])
    assert result.requests == sum(count for _, count in result.latency) == 5
    assert result.records == (2 * whole * 3 + 2 * 3 if cut else 3 * 9)
    assert result.bytes_received == sum(len(fetch(0, frame)) + 4 for frame in server.seen)


@pytest.mark.parametrize("answer", [b"", b"\0\0", b"\0\0\0\x50", b"\0\0\0\x05" + bytes(4)])
def test_a_fetch_reply_that_is_too_short_ends_the_run(serve, answer):
    _, filenos = serve(lambda correlation, frame: correlation.to_bytes(4, "big") + answer)
    load = Load([LoadSpec(filenos[0], request(bytes(8)), fetch_offset_position=8, records_position=4)])
    with pytest.raises(OperationError, match="malformed or out of order"):
        load.run(5, requests_max=1)


def test_a_batch_carries_when_it_was_due_and_stays_valid(serve):
    plain = batch_at(0, 1)
    stamp = plain.index(b"x" * 32)
    server, filenos = serve(lambda correlation, frame: correlation.to_bytes(4, "big"))
    load = Load([LoadSpec(filenos[0], request(plain), batch_position=8, batch_bytes=len(plain), stamp_position=stamp)])
    before = time.monotonic_ns()
    load.run(5, requests_max=2)
    for frame in server.seen:
        sent = frame[8:]
        assert before <= int.from_bytes(sent[stamp:stamp + 8], "big") <= time.monotonic_ns()
        assert len(list(walk(sent))) == 1
        assert next(iter(walk(sent))).valid


def keyed(key, value, codec="none"):
    builder = BatchBuilder(codec)
    builder.append(value, key)
    builder.append(b"second")
    return bytes(builder.build())


@pytest.mark.parametrize(("key", "value_bytes", "codec", "found"), [
    (None, 8, "none", 1), (b"k" * 7, 40, "none", 1), (b"k" * 300, 9000, "none", 1), (b"", 7, "none", 0),
    (b"k", 40, "lz4", 0)])
def test_a_reader_finds_the_stamp_behind_any_key(serve, key, value_bytes, codec, found):
    """The stamp is the first 8 bytes of the first value; too short a value and a compressed batch have none."""
    def fetch(correlation, frame):
        records = keyed(key, time.monotonic_ns().to_bytes(8, "big").ljust(value_bytes)[:value_bytes], codec)
        return correlation.to_bytes(4, "big") + len(records).to_bytes(4, "big") + records

    _, filenos = serve(fetch)
    result = Load([LoadSpec(filenos[0], request(bytes(8)), fetch_offset_position=8, records_position=4,
                            reads_stamps=True)]).run(5, requests_max=3)
    assert sum(count for _, count in result.end_to_end) == 3 * found
    assert all(value < 5_000_000_000 for value, _ in result.end_to_end)
    assert result.records == 6


def test_a_stamp_in_a_torn_record_is_not_read(serve):
    whole = keyed(b"k" * 20, b"v" * 20)
    torn = whole[:61] + b"\xff" * (len(whole) - 61)
    _, filenos = serve(lambda correlation, frame: correlation.to_bytes(4, "big") + len(torn).to_bytes(4, "big") + torn)
    result = Load([LoadSpec(filenos[0], request(bytes(8)), fetch_offset_position=8, records_position=4,
                            reads_stamps=True)]).run(5, requests_max=2)
    assert (result.end_to_end, result.records) == ([], 4)


@pytest.mark.parametrize("sizes", [(1, 100, 7), (10, 40_000, 30_000)])
def test_a_pool_of_requests_is_sent_round_and_round(serve, sizes):
    """A second run continues where the first one ended. Accepted content is that of requests without an error."""
    def refuses_the_second(correlation, frame):
        return correlation.to_bytes(4, "big") + (7 if len(frame) == 8 + sizes[1] else 0).to_bytes(2, "big")

    server, filenos = serve(refuses_the_second)
    frames = [LoadFrame(request(bytes([size % 256]) * size), batch_bytes=size, records=place + 1)
              for place, size in enumerate(sizes)]
    load = Load([LoadSpec(filenos[0], frames[0].frame, in_flight=2, error_position=4, batch_bytes=sizes[0], records=1,
                          more=frames[1:])])
    result = load.run(5, requests_max=4)
    assert (result.requests, result.errors) == (4, 1)
    assert (result.accepted_records, result.accepted_bytes) == (1 + 3 + 1, 2 * sizes[0] + sizes[2])
    load.run(5, requests_max=2)
    assert [len(frame) - 8 for frame in server.seen] == [*sizes, sizes[0], sizes[1], sizes[2]]


def test_a_number_in_each_request_counts_over_all_runs(serve):
    server, filenos = serve(echo)
    load = Load([LoadSpec(filenos[0], request(bytes(12)), in_flight=3, counter_position=12)])
    load.run(5, requests_max=5)
    load.run(5, requests_max=2)
    assert [int.from_bytes(frame[12:16], "big") for frame in server.seen] == list(range(7))


def test_a_run_can_be_watched(serve):
    """The tenth answer waits until another thread has seen the nine before it."""
    seen, loads = [], []

    def answer(correlation, frame):
        while correlation == 9 and not (seen and seen[-1].requests == 9):
            seen.append(loads[0].progress())
        return correlation.to_bytes(4, "big")

    _, filenos = serve(answer)
    load = Load([LoadSpec(filenos[0], request(), batch_bytes=5, records=2)])
    loads.append(load)
    result = load.run(5, requests_max=20)
    assert (seen[-1].accepted_records, seen[-1].elapsed_ns) == (18, 0)
    assert sum(count for _, count in seen[-1].latency) == 9
    assert (result.requests, result.accepted_bytes) == (20, 100)
    assert load.progress() is None


def test_requests_without_replies_are_done_when_sent(serve):
    _, filenos = serve(lambda correlation, frame: b"")
    result = Load([LoadSpec(filenos[0], request(), in_flight=2, no_reply=True, records=3)]).run(5, requests_max=50)
    assert (result.requests, result.accepted_records) == (50, 150)
    assert result.latency == []


@pytest.mark.parametrize(("answer", "says"), [
    (lambda correlation, frame: None, "closed"),
    (lambda correlation, frame: (correlation + 1).to_bytes(4, "big"), "out of order"),
    (lambda correlation, frame: b"\0\0", "malformed"),
])
def test_a_server_that_misbehaves_ends_the_run(serve, answer, says):
    _, filenos = serve(answer)
    with pytest.raises(OperationError, match=says):
        Load([LoadSpec(filenos[0], request())]).run(5, requests_max=5)


@pytest.mark.parametrize(("spec", "says"), [
    (LoadSpec(0, b"\0\0\0\1"), "frame"),
    (LoadSpec(0, request(), in_flight=0), "in_flight"),
    (LoadSpec(0, request(), interval_ns=-1), "interval_ns"),
    (LoadSpec(0, request(), fetch_offset_position=1), "fetch_offset_position"),
    (LoadSpec(0, request(bytes(8)), fetch_offset_position=8, in_flight=2), "in_flight"),
    (LoadSpec(0, request(bytes(8)), counter_position=13), "counter_position"),
    (LoadSpec(0, request(), more=[LoadFrame(b"\0\0\0\1")]), "frame"),
    (LoadSpec(0, request(), more=[LoadFrame(request(), records=-1)]), "records"),
    (LoadSpec(0, request(bytes(61)), batch_position=9, batch_bytes=61), "batch_position"),
    (LoadSpec(0, request(bytes(61)), batch_position=8, batch_bytes=61, stamp_position=60), "stamp_position"),
])
def test_positions_must_fit(spec, says):
    with pytest.raises(InvalidArgumentError, match=says):
        Load([spec])


def test_no_connection_is_refused():
    with pytest.raises(InvalidArgumentError, match="specs"):
        Load([])


@pytest.mark.parametrize(("arguments", "says"), [
    ({"seconds": 0.0}, "seconds: 0.0 is not above 0"), ({"seconds": float("nan")}, "seconds: nan is not above 0"),
    ({"seconds": 1.0, "requests_max": -1}, "requests_max: -1 is below 0"),
    ({"seconds": 1.0, "slots": -1}, "slots: -1 is below 0"),
])
def test_a_refused_argument_is_named_alone(arguments, says):
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(InvalidArgumentError, match=f"^{says}$"):
        Load([LoadSpec(ours.fileno(), request())]).run(**arguments)
