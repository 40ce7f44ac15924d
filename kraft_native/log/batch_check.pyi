"""A batch that is checked away from its log's thread."""

from typing import final

@final
class BatchCheck:
    """One batch of a client. `run` in any thread, once; then the owner's thread uses it."""

    done: bool
    thread_id: int
    """Identity of the thread that ran it; 0 before."""

    def __init__(self, *args: object, **kwargs: object) -> None: ...
    def run(self) -> None:
        """Decompress, check, and encode again if need be. Faults are raised when the batch is appended."""
