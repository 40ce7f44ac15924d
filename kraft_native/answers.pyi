from typing_extensions import disjoint_base

from kraft_native.fetch_chain import FetchChain
from kraft_native.template import Template

@disjoint_base
class AnswerReceiver:
    """What a connection receives that asks one request after the other, as `asyncio.BufferedProtocol` has it: frames,
    each its size in four bytes and so many bytes, which begin with a correlation id. One thread.

    A base class, which does nothing itself. `take_frame(frame)` gets each whole frame without its size, good for that
    call only: the next is received where this one lies. `refuse_frame(why)` hears of a frame of more than
    `frame_bytes_max` or less than four bytes, behind which nothing is looked at, and of a `KraftError` that
    `take_frame` raised.

    The buffer has `room` bytes and grows with what has come, not with what was announced; of more than `kept` it goes
    back to `room` when all was taken. `InvalidArgumentError` when `room` is less than four or more than `kept`.
    """

    is_abandoned: bool
    """Nothing more is taken."""

    def __init__(self, room: int, kept: int, frame_bytes_max: int) -> None: ...
    @property
    def correlation(self) -> int:
        """Of the last request that is known to have left; 0 before the first."""
    @property
    def next_correlation(self) -> int:
        """Of the request after that: the next number, 0 after 2147483647."""

    def request_left(self) -> None:
        """The next request has left."""

    def follow(self, chain: FetchChain, like: object, form: Template, tail: bytes, request: Template, fd: int) -> None:
        """From now on a frame with the correlation id `next_correlation` and no tags goes to the chain first, if it is
        what `form.read_bytes` reads and has records, and is `like` others then; when that does not take it, to
        `take_frame` as any other. The Fetches that follow are frames of `request`, whose numbers are the correlation
        id, the log end and the high watermark, and are sent by `fd`."""

    def unfollow(self) -> None:
        """Every frame goes to `take_frame` again."""

    def next_fetch(self, end_offset: int, high_watermark: int) -> tuple[int, bytes]:
        """The last request has left and its answer is taken; gives `fd` and the frame of the next."""

    def take_frame(self, frame: memoryview) -> None: ...
    def refuse_frame(self, why: str) -> None: ...
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
