"""The block of producer ids that a broker hands out, asked for from the controller when it is used up (KIP-730)."""

from dataclasses import dataclass


@dataclass
class ProducerIdBlock:
    """Ids from `next_id` on, below `end`."""

    next_id: int = 0
    end: int = 0
    asking: bool = False
    """Whether a new block was asked for and has not come."""

    def take(self) -> int | None:
        """The next id; None when the block is used up."""
        if self.next_id >= self.end:
            return None
        self.next_id += 1
        return self.next_id - 1

    def refill(self, start: int, count: int) -> None:
        """A block came from the controller."""
        self.next_id, self.end, self.asking = start, start + count, False
