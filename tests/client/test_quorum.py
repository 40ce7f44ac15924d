"""Changes of the quorum while its leader changes or hangs: they are repeated, and end."""

from types import SimpleNamespace
from typing import Any, Self, cast
from uuid import UUID

import pytest

from kraft.client import quorum as module
from kraft.client import retries
from kraft.client.cluster import Cluster
from kraft.client.connection import Connection, ConnectionFailedError, UnreachableError
from kraft.client.quorum import Description, QuorumClient, Replica
from kraft.client.refusals import RefusedError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from kraft.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from kraft.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse

DISK = UUID(int=7)
HANGS = ConnectionFailedError("127.0.0.1:1: timed out")
UNREACHABLE = UnreachableError("127.0.0.1:1: cannot connect: refused")


class Leaders(QuorumClient):
    """Each attempt gets the next entry of `script`: an answer, or an error."""

    def __init__(self, script: list[Any], voters: tuple[int, ...] = (), timeout: float = 30.0) -> None:
        super().__init__(Cluster("127.0.0.1:1", timeout=timeout))
        self.script = script
        self.given: list[float] = []
        self.voters = voters

    def leader(self, seconds: float | None = None) -> Connection:
        assert seconds is not None
        self.given.append(seconds)
        return cast("Connection", self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send(self, _request: object, _response: object) -> Any:
        found = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(found, Exception):
            raise found
        return found

    def describe(self) -> Description:
        return Description(1, 1, 1, tuple(Replica(each, DISK, True, 1, 0, 0, 0) for each in self.voters))


def answer(code: ErrorCode) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=None, responses=[])


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_PAUSE_SECONDS", 0.0)


@pytest.mark.parametrize("targets", [(1, 2, 3), None])
def test_a_reassignment_is_repeated_against_the_next_leader(targets: tuple[int, ...] | None) -> None:
    client = Leaders([HANGS, answer(ErrorCode.NOT_CONTROLLER), answer(ErrorCode.REQUEST_TIMED_OUT),
                      answer(ErrorCode.NONE)])
    client.reassign(targets)
    assert len(client.given) == 4
    assert max(client.given) <= module.ATTEMPT_SECONDS + module.ANSWER_SECONDS, "one that hangs is given up"


def test_a_refused_request_is_not_repeated() -> None:
    client = Leaders([answer(ErrorCode.INVALID_REQUEST)])
    with pytest.raises(RefusedError, match="reassigning the voters to 9"):
        client.reassign((9,))
    assert len(client.given) == 1


def test_a_result_of_an_earlier_attempt_is_no_error() -> None:
    added = Leaders([HANGS, AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER)], voters=(1, 2))
    added.add(2, DISK, [("CONTROLLER", "a", 1)])
    with pytest.raises(RefusedError, match="DUPLICATE_VOTER"):
        Leaders([AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER)], voters=(1, 2)).add(2, DISK, [])

    class Removed(Leaders):
        def describe(self) -> Description:
            found = super().describe()
            self.voters = (1,)
            return found

    Removed([HANGS, RemoveRaftVoterResponse(error_code=ErrorCode.VOTER_NOT_FOUND)], voters=(1, 2)).remove(2, DISK)


@pytest.mark.parametrize("change", [
    lambda client: client.reassign((1,)), lambda client: client.add(2, DISK, []),
    lambda client: client.remove(2, DISK)])
def test_nobody_answers_and_it_ends(change: Any) -> None:
    with pytest.raises(ConnectionFailedError, match=r"voters? .*: no leader answered within 0\.05 s: 127\.0\.0\.1:1"):
        change(Leaders([HANGS], timeout=0.05))


@pytest.mark.parametrize(("script", "soon", "text"), [
    ([UNREACHABLE], True, "^127.0.0.1:1: cannot connect"),
    ([HANGS, UNREACHABLE], False, r"no leader answered within 30 s: .*cannot connect"),
])
def test_addresses_that_were_never_reached_are_no_reason_to_wait(script: list[Any], soon: bool, text: str,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is shorter than the time-out: nodes that restart are back within seconds. A node that was reached is
    waited for."""
    clock = iter(range(100))
    monkeypatch.setattr(retries, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
    with pytest.raises(ConnectionFailedError, match=text):
        Leaders(script).reassign(None)
    assert (next(clock) < 15) == soon
