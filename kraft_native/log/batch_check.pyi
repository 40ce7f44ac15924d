from typing import final

@final
class BatchCheck:
    done: bool
    thread_id: int
    """Identity of the thread that ran it; 0 before."""

    def __init__(self, *args: object, **kwargs: object) -> None: ...
    def run(self) -> None: ...
