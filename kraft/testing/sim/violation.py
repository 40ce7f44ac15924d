"""The exception by which a run reports a broken invariant."""


class ViolationError(Exception):
    """Violation of an invariant. `name` is the name of the invariant: for one cause it is the same under any seed."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text

    def __reduce__(self) -> tuple[type["ViolationError"], tuple[str, str]]:
        return ViolationError, (self.name, self.text)
