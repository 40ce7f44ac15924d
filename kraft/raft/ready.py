"""What the driver has to do after it has talked to the core."""

from typing import NamedTuple

from kraft.immutable import immutable
from kraft.raft.messages import Request, Response
from kraft.raft.transitions import Role
from kraft.raft.types import NOBODY, Endpoint, OffsetAndEpoch, ReplicaKey


class HardState(NamedTuple):
    """What a replica must not forget: the content of `quorum-state`. `voted`: who got its vote in `epoch`; `leader_id`:
    who leads in `epoch`, -1 when that is not known."""

    epoch: int = 0
    voted: ReplicaKey | None = None
    leader_id: int = NOBODY


class Ask(NamedTuple):
    """A request for a node; `address` is the best one known, None where the driver may know better. What comes back is
    given to `Raft.step` with the same `node_id` and `correlation`; a `Lost` when nothing comes."""

    node_id: int
    address: Endpoint | None
    correlation: int
    request: Request


class Answer(NamedTuple):
    """The response to the request that came with this `source` and `correlation`."""

    source: int
    correlation: int
    response: Response


class Leadership(NamedTuple):
    """The role of this replica and who leads. `epoch_start` is the offset of this replica's LeaderChange record, -1
    when it does not lead: the state machine may lead when the high watermark has passed that."""

    role: Role
    epoch: int
    leader_id: int
    epoch_start: int


@immutable
class Ready:
    """To be carried out in this order, and no later `Ready` overtakes an earlier one. None or empty: nothing to do.

    1. `hard_state` is made durable.
    2. `messages` are sent, in order. Any of them may get lost; none may leave before 1 is done.
    3. `flush` is started: the log is to be durable up to this offset. The driver does not wait for it, and tells its
       end with `Raft.log_flushed`; the next one is asked for after that.
    4. `installed`: a snapshot has replaced the log: the state machine starts anew from it.
    5. `high_watermark`: everything below is committed and may be applied. It never goes back while a node runs.
    6. `leadership` is told to the state machine; one that ends, before 4: nobody who hears of 5 may propose any more.
    """

    hard_state: HardState | None = None
    messages: tuple[Ask | Answer, ...] = ()
    flush: int | None = None
    installed: OffsetAndEpoch | None = None
    high_watermark: int | None = None
    leadership: Leadership | None = None
