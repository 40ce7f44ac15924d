from typing import Protocol, final

class _Transport(Protocol):
    def get_extra_info(self, name: str, /) -> object: ...

@final
class Outgoing:
    """One write of a connection. Compiled code only."""

    total_bytes: int

def plain_descriptor(transport: _Transport) -> int: ...
