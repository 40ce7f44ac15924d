"""Proposals to every node of a quorum at the same time, and their outcomes."""

import itertools
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

from kraft.client.connection import Connection
from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import KraftError
from tests.integration.history import Proposal, check_history, check_same_logs, log_batches, propose, proposed
from tests.integration.quorum import ControllerProcess

REFUSED_PAUSE_SECONDS: Final = 0.005
PAUSE_SECONDS: Final = 0.01
ANSWER_SECONDS: Final = 3.0
JOIN_SECONDS: Final = 60.0
_NUMBERS: Final = itertools.count(1)


class Load:
    """Sends proposals to each node from a thread of its own; nodes that do not lead refuse them. A context manager.

    A proposal is sent once: after an error its fate is unknown, and the next proposal has a new name.
    """

    def __init__(self, nodes: Iterable[ControllerProcess], *, pause: float = PAUSE_SECONDS) -> None:
        self._pause = pause
        self._number = next(_NUMBERS)
        self._going = True
        self._history: list[list[Proposal]] = []
        self._threads = []
        for node in nodes:
            own: list[Proposal] = []
            self._history.append(own)
            self._threads.append(threading.Thread(target=self._propose, args=(node, own), daemon=True))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._going = False
        for thread in self._threads:
            thread.join(JOIN_SECONDS)

    @property
    def history(self) -> list[Proposal]:
        """Everything that may be in a log."""
        return [each for own in self._history for each in list(own)]

    def answers(self) -> list[float]:
        """Return the times at which proposals were committed, in order."""
        return sorted(each.answered for each in self.history if each.answered is not None)

    def first_answer_after(self, moment: float) -> float | None:
        """Return when the first proposal that was sent after a given moment was committed."""
        return min((each.answered for each in self.history if each.sent >= moment and each.answered is not None),
                   default=None)

    def _propose(self, node: ControllerProcess, history: list[Proposal]) -> None:
        number = 0
        while self._going:
            try:
                with Connection("127.0.0.1", node.controller_port, timeout=ANSWER_SECONDS) as connection:
                    while self._going:
                        number += 1
                        name = f"{self._number}.{node.node_id}.{number}"
                        sent = time.monotonic()
                        history.append(Proposal(name, sent, None))
                        code = propose(connection, name)
                        if code is ErrorCode.NONE:
                            history[-1] = Proposal(name, sent, time.monotonic())
                        time.sleep(self._pause if code is ErrorCode.NONE else REFUSED_PAUSE_SECONDS)
            except KraftError:
                time.sleep(REFUSED_PAUSE_SECONDS)

    def check(self, nodes: Iterable[ControllerProcess], committed: int) -> int:
        """Check that everything that was answered is in each node's log, in its order. Return how many proposals were
        answered."""
        directories = [node.directory for node in nodes]
        check_same_logs(directories, committed)
        check_history(self.history, proposed(log_batches(directories[0], committed)))
        return len(self.answers())
