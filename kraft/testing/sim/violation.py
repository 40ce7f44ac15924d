"""How a run tells that something is wrong."""


class ViolationError(Exception):
    """An invariant does not hold. `name` is that of the invariant: for one cause it is the same under any seed."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text

    def __reduce__(self) -> tuple[type["ViolationError"], tuple[str, str]]:
        return ViolationError, (self.name, self.text)
