"""Reader in a process of its own that checks every byte it gets: `python -m tests.native.live_follower DIRECTORY`.

It reads until the owner has closed the log, and jumps to random offsets from time to time. It prints "ready", then
its results as `key=value` pairs. It ends with an exception when anything is wrong.
"""

import random
import sys
from collections import Counter

from kraft_native.base.errors import LogClosedError, OffsetOutOfRangeError
from kraft_native.facade.reader import LogReader
from tests.native.live_owner import check_slice


class Follower:
    def __init__(self, directory: str, seed: int) -> None:
        self.reader = LogReader(directory)
        self.random = random.Random(seed)
        self.offset = 0
        self.newest: dict[int, int] = {}  # offset -> newest generation seen there
        self.seen: Counter[str] = Counter()

    def read(self) -> bool:
        """Read once and check the result. Return False when nothing can be read at the offset."""
        try:
            piece = self.reader.read(self.offset, self.random.choice([1, 500, 5000, 1 << 20]))
        except OffsetOutOfRangeError:
            # The offset was deleted or truncated.
            self.seen["out_of_range"] += 1
            self.offset = self.reader.log_start_offset
            return True
        found = check_slice(piece, self.offset)
        for offset, generation in found:
            assert generation >= self.newest.get(offset, 0), f"offset {offset}: an older generation came back"
            self.newest[offset] = generation
            self.seen["records"] += 1
        if found:
            assert found[-1][0] + 1 <= piece.next_offset
            # The slice begins at the batch with the offset, unless that batch was compacted away.
            assert piece.next_offset > self.offset
        advanced = piece.next_offset > self.offset
        self.offset = piece.next_offset
        return advanced

    def follow(self) -> None:
        while True:
            if self.random.random() < 0.1:
                low = self.reader.log_start_offset
                self.offset = self.random.randint(low, max(low, self.reader.high_watermark))
                self.seen["jumps"] += 1
            if self.random.random() < 0.02:
                self.look_up_a_time()
            if self.read():
                continue
            self.seen["waits"] += 1
            try:
                self.reader.wait(self.offset, 20)
            except LogClosedError:
                return

    def look_up_a_time(self) -> None:
        """Search by time. A record's time is 1000 + its offset, so the answer is known, except for deleted or
        compacted records."""
        target = self.random.randint(0, max(1, self.reader.log_end_offset))
        found = self.reader.offset_for_time(1000 + target)
        if found is not None:
            assert found[0] >= target
            assert found[1] == 1000 + found[0]
            self.seen["times"] += 1


def main(directory: str, seed: str) -> None:
    follower = Follower(directory, int(seed))
    print("ready", flush=True)
    follower.follow()
    follower.offset = follower.reader.log_start_offset
    while follower.read():
        pass
    print(f"end={follower.offset}", *(f"{key}={value}" for key, value in follower.seen.items()), flush=True)
    follower.reader.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
