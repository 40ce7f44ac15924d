"""Reception on a connection that sends one request after the other."""

from collections.abc import Iterable

import pytest

from kraft_native.base.errors import InvalidArgumentError, MalformedMessageError
from kraft_native.replica.answers import AnswerReceiver
from kraft_native.replica.leased_follower import LeasedFollower
from kraft_native.replica.template import Template

ROOM, KEPT, LARGEST = 16, 64, 1000
FORM = Template(b"hw........", [(2, 8)])
TAIL = b"end"
NEXT = Template(b"....fetch ........ ........", [(0, 4), (10, 8), (19, 8)])
FD = 77


class Receiver(AnswerReceiver):
    def __init__(self) -> None:
        super().__init__(ROOM, KEPT, LARGEST)
        self.frames: list[bytes] = []
        self.refused: list[str] = []

    def take_frame(self, frame: memoryview) -> None:
        if frame == b"malformed":
            raise MalformedMessageError("it is malformed")
        self.frames.append(bytes(frame))
        self.is_abandoned = frame == b"last one"

    def refuse_frame(self, why: str) -> None:
        self.refused.append(why)

    def receive(self, data: bytes, piece_bytes: int = 1 << 20) -> None:
        while data:
            room = self.get_buffer(-1)
            size = min(len(room), len(data), piece_bytes)
            room[:size] = data[:size]
            data = data[size:]
            self.buffer_updated(size)


class Sent:
    """A log that accepts every message of the follower; everything to be sent has left."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, int, bytes]] = []

    def take_back(self) -> bool:
        return True

    def send_when_durable(self, end_offset: int, fd: int, message: bytes) -> bool:
        self.messages.append((end_offset, fd, message))
        return True


def framed(frames: Iterable[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@pytest.mark.parametrize("piece_bytes", [1, 3, 7, 1000])
def test_frames_of_any_size_in_any_pieces(piece_bytes: int) -> None:
    receiver = Receiver()
    frames = [bytes([size % 256]) * size for size in (4, 5, 300, 4, 12, 999, 1000, 6)]
    receiver.receive(framed(frames), piece_bytes)
    assert receiver.frames == frames
    assert len(receiver.get_buffer(-1)) <= KEPT, "it goes back to what is kept"
    receiver.receive(framed([b"again"]))
    assert receiver.frames[-1] == b"again"


def test_a_buffer_grows_with_what_has_come_not_with_what_was_announced() -> None:
    receiver = Receiver()
    receiver.receive(framed([bytes(1000)])[:10])
    assert len(receiver.get_buffer(-1)) == ROOM - 10


@pytest.mark.parametrize("size", [-1, 0, 3, LARGEST + 1])
def test_a_size_that_cannot_be(size: int) -> None:
    receiver = Receiver()
    receiver.receive(framed([b"good"]) + size.to_bytes(4, "big", signed=True) + b"more")
    assert receiver.frames == [b"good"]
    assert receiver.refused[0] == f"a frame of {size} bytes"


def test_a_receiver_may_refuse_a_frame_and_may_end() -> None:
    receiver = Receiver()
    receiver.receive(framed([b"malformed", b"last one", b"too late"]))
    assert receiver.refused == ["it is malformed"]
    assert receiver.frames == [b"last one"]


@pytest.mark.parametrize(("room", "kept"), [(3, 100), (10, 9)])
def test_rooms_that_cannot_be(room: int, kept: int) -> None:
    with pytest.raises(InvalidArgumentError, match="room"):
        AnswerReceiver(room, kept, LARGEST)


def answer(correlation: int, high_watermark: int, records: bytes, *, tags: bytes = b"\0", tail: bytes = TAIL) -> bytes:
    return (correlation.to_bytes(4, "big") + tags + FORM.write(high_watermark) + bytes([len(records) + 1]) + records
            + tail)


def following(*, is_sent: bool = False) -> tuple[Receiver, Sent, list[bytes]]:
    receiver, log, taken = Receiver(), Sent(), list[bytes]()

    def append(records: object) -> int:
        taken.append(bytes(records))  # type: ignore[call-overload]
        return 10 * len(taken)

    follower = LeasedFollower(log, append, lambda _sends: None)
    for _ in range(7 if is_sent else 6):
        receiver.request_left("a request")
    if not is_sent:
        receiver.waiting = None
    follower.begin(0, None if is_sent else (FD, b"first"))
    log.messages.clear()
    assert not receiver.is_following
    receiver.follow(follower, FORM, TAIL, NEXT, FD)
    return receiver, log, taken


@pytest.mark.parametrize("is_sent", [True, False])
def test_answers_like_the_one_before_are_accepted_one_after_the_other(is_sent: bool) -> None:
    receiver, log, taken = following(is_sent=is_sent)
    assert (receiver.is_following, receiver.waiting) == (True, "a request" if is_sent else None)
    receiver.receive(framed([answer(7, 5, b"one")]))
    receiver.receive(framed([answer(8, 100, b"two")]), 5)
    assert (receiver.frames, taken, receiver.correlation) == ([], [b"one", b"two"], 8)
    assert receiver.waiting is None
    # The high watermark is limited by this log's end.
    assert log.messages == [(10, FD, NEXT.write(8, 10, 5)), (20, FD, NEXT.write(9, 20, 20))]
    receiver.unfollow()
    receiver.receive(framed([answer(9, 100, b"three")]))
    assert receiver.frames == [answer(9, 100, b"three")]


@pytest.mark.parametrize("other", [
    answer(6, 5, b"one"), answer(8, 5, b"one"), answer(7, 5, b""), answer(7, 5, b"one", tags=b"\1"),
    answer(7, 5, b"one", tail=b"and"), answer(7, 5, b"one") + b"more", answer(7, 5, b"one")[:-1], b"\0\0\0\7"])
def test_every_other_frame_is_taken_as_any(other: bytes) -> None:
    receiver, log, taken = following()
    receiver.receive(framed([other]))
    assert (receiver.frames, taken, log.messages, receiver.correlation) == ([other], [], [], 6)
