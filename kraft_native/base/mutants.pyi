"""The bug that is planted in the compiled code of this process: for the simulator, which must find each of them."""

def plant(name: str | None) -> None:
    """Plant that bug instead of the current one; None: none.

    `InvalidArgumentError` for an unknown name, `OperationError` when the modules were built without the bugs.
    """

def names() -> list[str]:
    """Return the names of all bugs."""
