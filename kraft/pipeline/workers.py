"""Execution of one function over many ranges: in threads of this process, or in an engine with the same interface."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final, Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers(Protocol):
    """Executor of ranges. Results arrive as they are ready, in any order, each with its task. The first failure is
    raised and ends the work."""

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]: ...


class Threads:
    """Threads of this process: the work on a range is compiled and releases the interpreter lock."""

    def __init__(self, count: int) -> None:
        self.count = count

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        if self.count <= 1 or len(tasks) <= 1:
            yield from ((task, function(task)) for task in tasks)
            return
        waiting = list(reversed(tasks))
        running: dict[Future[Result], Task] = {}
        with ThreadPoolExecutor(self.count) as pool:
            while waiting or running:
                while waiting and len(running) < self.count:
                    task = waiting.pop()
                    running[pool.submit(function, task)] = task
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield running.pop(future), future.result()


IN_PLACE: Final = Threads(1)
"""One range after the other, in the calling thread."""
