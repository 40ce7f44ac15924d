from typing_extensions import disjoint_base

from kraft_native.replica.leased_follower import LeasedFollower
from kraft_native.replica.template import Template

@disjoint_base
class AnswerReceiver:
    """Receiver of a connection with one request at a time, as an `asyncio.BufferedProtocol`. It receives frames, each
    its size in four bytes and that many bytes, which begin with a correlation id. One thread.

    A base class, which does nothing itself. `take_frame(frame)` gets each whole frame without its size, valid during
    that call only: the next one is received in the same place. `refuse_frame(why)` is called for a frame of more than
    `frame_bytes_max` or less than four bytes, after which nothing is processed, and for a `KraftError` that
    `take_frame` raised.

    The buffer has `room` bytes and grows with the received bytes, not with the announced ones. If it exceeds `kept`, it
    shrinks to `room` once it is empty. `InvalidArgumentError` when `room` is less than four or more than `kept`.
    """

    is_abandoned: bool
    """True when nothing more is accepted."""
    waiting: object
    """Description of the last request that was sent, None when it is answered."""

    def __init__(self, room: int, kept: int, frame_bytes_max: int) -> None: ...
    @property
    def correlation(self) -> int:
        """Correlation id of the last request that is known to have been sent; 0 before the first."""
    @property
    def next_correlation(self) -> int:
        """Correlation id of the request after that: the next number, 0 after 2147483647."""

    def request_left(self, waiting: object) -> None:
        """Record that the next request has been sent."""

    def follow(self, follower: LeasedFollower, form: Template, tail: bytes, request: Template, fd: int) -> None:
        """Pass answers to the follower first: to the last request, or to the next one when that is answered.

        The follower gets a frame without tags that `form.read_bytes` reads and that has records. A frame that it does
        not accept goes to `take_frame` like any other. The later Fetches are frames of `request`, whose numbers are the
        correlation id, the log end and the high watermark. They are sent by `fd`.
        """

    def unfollow(self) -> None:
        """Pass every frame to `take_frame` again."""

    @property
    def is_following(self) -> bool:
        """Return whether answers go to a follower first."""

    def next_fetch(self, end_offset: int, high_watermark: int) -> tuple[int, bytes]:
        """Record that the follower has accepted an answer; return `fd` and the frame of the next request."""

    def take_frame(self, frame: memoryview) -> None: ...
    def refuse_frame(self, why: str) -> None: ...
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
