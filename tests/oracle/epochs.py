"""The leader-epoch cache, slow and obvious: a sorted list of (epoch, start offset)."""

from __future__ import annotations


class Epochs:
    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []

    def assign(self, epoch: int, start: int) -> None:
        self.truncate_from_end(start)
        if self.entries and self.entries[-1][0] == epoch:
            return
        while self.entries and self.entries[-1][0] >= epoch:
            self.entries.pop()
        self.entries.append((epoch, start))

    def truncate_from_end(self, end: int) -> None:
        self.entries = [entry for entry in self.entries if entry[1] < end]

    def truncate_from_start(self, start: int) -> None:
        below = [entry for entry in self.entries if entry[1] < start]
        self.entries = [entry for entry in self.entries if entry not in below[:-1]]

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        if epoch < 0 or not self.entries or epoch > self.entries[-1][0]:
            return -1, -1
        if epoch == self.entries[-1][0]:
            return epoch, log_end
        known = [entry[0] for entry in self.entries if entry[0] <= epoch]
        next_start = next(entry[1] for entry in self.entries if entry[0] > epoch)
        return (known[-1] if known else epoch), next_start

    def epoch_at(self, offset: int) -> int:
        return max((entry[0] for entry in self.entries if entry[1] <= offset), default=-1)
