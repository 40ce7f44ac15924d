"""The simulated log reports to the core what the engine's log reports, through every death that the simulated disk
knows.

Two logs of each kind do the same: proposals, control records, fetches from each other, cuts, flushes, deaths of the
process and losses of power. The simulated disk decides which batch is the first that a loss of power destroys. The
engine then finds a file that is torn there, in some way.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from kraft.raft.records import KRaftVersion, Voters
from kraft.raft.types import OffsetAndEpoch
from kraft.raft.voters import VoterSet
from kraft.runtime.quorum.raft_log import Proposal, RaftLog
from kraft.runtime.storage.metadata_directory import MetadataLogSettings
from kraft.testing.sim.batches import Contents, Value
from kraft.testing.sim.disk import Disk
from kraft.testing.sim.log import SimLog
from kraft_native.batch.batch import walk
from kraft_native.facade.log import Log
from tests.raft.world import voter

SETTINGS: Final = MetadataLogSettings(segment_bytes=1 << 20)
STEPS: Final = 120
READ_BYTES: Final = 1 << 20
SECTOR_BYTES: Final = 512
NOW_MS: Final = 1_700_000_000_000


class Pair:
    """One log of each kind, in the same state. `ends` holds the end of each batch and its identity."""

    def __init__(self, directory: Path, contents: Contents) -> None:
        self._directory = directory
        self._deaths = 0
        self._contents = contents
        self._disk = Disk()
        self._stack = ExitStack()
        self.ends: list[tuple[int, object]] = []
        directory.mkdir()
        self._open()

    def _open(self) -> None:
        self.sim = SimLog(self._disk, self._contents, lambda batch: None)
        self._log = self._stack.enter_context(Log(self._home / "__cluster_metadata-0", SETTINGS.log_config()))
        self.real = RaftLog(self._log)

    @property
    def _home(self) -> Path:
        home = self._directory / str(self._deaths)
        home.mkdir(exist_ok=True)
        return home

    def close(self) -> None:
        self._stack.close()

    def check(self, epoch: int) -> None:
        assert self.real.end == self.sim.end
        assert self.real.start_offset == self.sim.start_offset
        assert self._log.durable_end_offset >= self.sim.durable_offset
        assert self.real.end.offset == (self.ends[-1][0] if self.ends else 0)
        for each_epoch in range(-1, epoch + 2):
            assert self.real.end_of_epoch(each_epoch) == self.sim.end_of_epoch(each_epoch), each_epoch
        assert self.real.controls() == self.sim.controls()
        assert (self.real.read(self.real.end.offset, READ_BYTES) is None
                and self.sim.read(self.sim.end.offset, READ_BYTES) is None)

    def propose(self, number: int, epoch: int) -> None:
        end = self.sim.append(Value(0, number, 50 + number % 700), epoch, NOW_MS)
        assert self.real.append(Proposal([bytes(50 + number % 700)], NOW_MS), epoch, NOW_MS) == end
        self.ends.append((end, number))

    def control(self, number: int, epoch: int) -> None:
        records = [Voters(VoterSet.of(voter(1))), KRaftVersion(1)][:1 + number % 2]
        end = self.sim.append_control(records, epoch, NOW_MS)
        assert self.real.append_control(records, epoch, NOW_MS) == end
        self.ends.append((end, number))

    def flush(self) -> None:
        self.sim.flush_ends(self.sim.flush_begins())
        self._log.flush()

    def cut(self, count: int) -> None:
        """Keep the first `count` batches."""
        del self.ends[count:]
        end = self.ends[-1][0] if self.ends else 0
        self.sim.truncate(end)
        self.real.truncate(end)

    def follow(self, leader: "Pair", *, is_leased: bool) -> None:
        """Cut off what the leader does not have, and fetch what it has beyond that."""
        common = 0
        while common < min(len(self.ends), len(leader.ends)) and self.ends[common] == leader.ends[common]:
            common += 1
        self.cut(common)
        while self.real.end != leader.real.end:
            accepted = []
            for mine, other in ((self.sim, leader.sim), (self.real, leader.real)):
                records = other.read(mine.end.offset, READ_BYTES)
                accepted.append(is_leased and mine.append_leased(records) >= 0)
                if not accepted[-1]:
                    mine.append_fetched(records, other.end.epoch)
            assert accepted[0] == accepted[1]
        self.ends = list(leader.ends)

    def die(self) -> None:
        """Let the process die: what it wrote remains."""
        self._disk.lose_process()
        self._move()
        self._open()

    def lose_power(self, draw: Random) -> None:
        """Lose power: what was flushed remains, and of the rest what the simulated disk decides. The engine has flushed
        more where an epoch began, for its checkpoint."""
        if self._log.durable_end_offset > self.sim.durable_offset:
            self.flush()
        self._disk.lose_power(Random(draw.random()))
        sizes = [batch.size_in_bytes for batch in self._batches()]
        home = self._move()
        left = SimLog(self._disk, self._contents, lambda batch: None).end.offset
        kept = sum(end <= left for end, _ in self.ends)
        if kept < len(self.ends):
            tear(home / "__cluster_metadata-0" / f"{0:020}.log", sum(sizes[:kept]), sizes[kept], draw)
        del self.ends[kept:]
        self._open()

    def _batches(self) -> Iterator[Any]:
        offset = self.real.start_offset
        while (records := self.real.read(offset, READ_BYTES)) is not None:
            for batch in walk(records):
                offset = batch.next_offset
                yield batch

    def _move(self) -> Path:
        """Copy the files as a process that starts now finds them; the previous process ended without a close."""
        before = self._home
        self._deaths += 1
        shutil.rmtree(self._home)
        shutil.copytree(before, self._directory / str(self._deaths))
        self._stack.close()
        shutil.rmtree(before)
        return self._home


def tear(path: Path, at: int, size: int, draw: Random) -> None:
    """Damage the batch of `size` bytes at `at`: it did not become durable, or not completely."""
    data = bytearray(path.read_bytes())
    how = draw.randrange(3)
    if how == 0:
        del data[at + draw.randrange(size):]
    elif how == 1:
        data[at:] = bytes(len(data) - at)
    else:                              # one sector: of the checksum, or of what it covers
        sector = (at + draw.randrange(size)) // SECTOR_BYTES * SECTOR_BYTES
        begin, end = max(at, sector), min(at + size, sector + SECTOR_BYTES)
        changed = bytes(byte ^ 0xFF for byte in data[begin:end])
        data[begin:end] = changed
    path.write_bytes(data)


@pytest.mark.parametrize("seed", range(12))
def test_both_report_the_same(tmp_path: Path, seed: int) -> None:
    draw, contents, epoch = Random(seed), Contents(), 1
    pairs = [Pair(tmp_path / name, contents) for name in ("a", "b")]
    try:
        for number in range(STEPS):
            pair, other = pairs if draw.random() < 0.5 else reversed(pairs)
            what = draw.choices(("propose", "control", "flush", "cut", "follow", "die", "power"),
                                (8, 2, 4, 1, 3, 1, 2))[0]
            if what in ("propose", "control"):
                if draw.random() < 0.2:
                    epoch += 1
                epoch = max(epoch, pair.real.end.epoch)
                getattr(pair, what)(number, epoch)
            elif what == "flush":
                pair.flush()
            elif what == "cut":
                pair.cut(draw.randrange(len(pair.ends) + 1))
                epoch += 1
            elif what == "follow":
                pair.follow(other, is_leased=draw.random() < 0.5)
            elif what == "die":
                pair.die()
            else:
                pair.lose_power(draw)
            for each in pairs:
                each.check(epoch)
        assert max(each.real.end for each in pairs) > OffsetAndEpoch(0, 0)
    finally:
        for each in pairs:
            each.close()
