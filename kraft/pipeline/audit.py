"""`audit`: check that all replicas of a partition are sound and equal. Plan, and comparison of the digests of `digest`.

The comparison covers the offsets that every replica must have. They begin at the largest log start, and above the range
that a cleaner touched, because it works on each replica independently. They end at the smallest high watermark.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

from kraft.files.partition_files import PartitionFiles
from kraft.log_dir import TopicPartition
from kraft.pipeline.digest import BatchIdentity, Block, Damage, Digests, DigestTask, digest_range, identities
from kraft.pipeline.replicas import Replica
from kraft.pipeline.workers import Workers

BLOCK_OFFSETS = 1 << 16
TASK_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Scope:
    """Replicas of one partition, and the offsets in which they are compared, end exclusive."""

    name: TopicPartition
    replicas: tuple[Replica, ...]
    start: int
    end: int


@dataclass(slots=True)
class Verdict:
    """Final result for one partition. `records` and `size_bytes` are of the first replica.

    `divergent_offset`: the first offset at which the replicas differ, -1 when they do not; `versions` then has the
    content of each there.
    """

    topic: str
    partition: int
    replicas: list[str]
    start: int
    end: int
    records: int = 0
    size_bytes: int = 0
    damages: list[Damage] = field(default_factory=list)
    divergent_offset: int = -1
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        return not self.damages and self.divergent_offset < 0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "damages": [damage._asdict() for damage in self.damages], "sound": self.sound}


def scope_of(replicas: Sequence[Replica]) -> Scope:
    """Return the offsets in which these replicas can be compared."""
    start = max(max(each.log_start, each.cleaned_end) for each in replicas)
    marks = [each.high_watermark for each in replicas if each.high_watermark >= 0]
    end = min(marks) if marks else min(_log_end(each) for each in replicas)
    return Scope(replicas[0].name, tuple(replicas), start, max(start, end))


def _log_end(replica: Replica) -> int:
    """Return the end of the last segment's batches, for a log without a recorded high watermark."""
    partition = PartitionFiles(Path(replica.directory))
    audit = partition.audit(partition.segments[-1], check_crc=False)
    if audit is None:
        return replica.segment_starts[-1]
    with audit:
        while audit.step():
            audit.take_events()
        return audit.next_offset


def plan(scopes: Iterable[Scope], block_offsets: int = BLOCK_OFFSETS, task_bytes: int = TASK_BYTES) -> list[DigestTask]:
    """Return ranges of about `task_bytes`, large ones first, cut at blocks near the starts of segments."""
    tasks = []
    for scope in scopes:
        for replica in scope.replicas:
            cuts = _cuts(replica, scope, block_offsets, task_bytes)
            share = replica.size_bytes // max(len(cuts) - 1, 1)
            tasks += [DigestTask(*scope.name, replica.directory, start, end, block_offsets, share)
                      for start, end in pairwise(cuts)]
    return sorted(tasks, key=lambda task: -task.size_bytes)


def _cuts(replica: Replica, scope: Scope, block_offsets: int, task_bytes: int) -> list[int]:
    """Return rising offsets from the scope's start to its end."""
    if scope.start >= scope.end:
        return []
    per_segment = max(replica.size_bytes // len(replica.segment_starts), 1)
    stride = max(task_bytes // per_segment, 1)
    inner = {base // block_offsets * block_offsets for base in replica.segment_starts[stride::stride]}
    return [scope.start, *sorted(cut for cut in inner if scope.start < cut < scope.end), scope.end]


def run(scopes: Sequence[Scope], workers: Workers, *, block_offsets: int = BLOCK_OFFSETS,
        task_bytes: int = TASK_BYTES, progress: Callable[[int], None] = lambda _: None) -> Iterator[Verdict]:
    """Yield the verdict on every scope. `progress` receives the number of bytes that were read."""
    found: dict[tuple[TopicPartition, str], Digests] = {}
    for task, digests in workers.run(digest_range, plan(scopes, block_offsets, task_bytes)):
        whole = found.setdefault((TopicPartition(task.topic, task.partition), task.directory), Digests())
        whole.blocks += digests.blocks
        whole.damages += digests.damages
        progress(digests.size_bytes)
    for scope in scopes:
        yield judge(scope, {replica.directory: found.get((scope.name, replica.directory), Digests())
                            for replica in scope.replicas}, block_offsets)


def judge(scope: Scope, found: Mapping[str, Digests], block_offsets: int = BLOCK_OFFSETS) -> Verdict:
    """Compare the digests of a partition's replicas, by directory. The first block that differs is read again."""
    first = found[scope.replicas[0].directory]
    verdict = Verdict(*scope.name, [replica.label for replica in scope.replicas], scope.start, scope.end,
                      sum(block.records for block in first.blocks), sum(block.size_bytes for block in first.blocks))
    verdict.damages = sorted((damage for digests in found.values() for damage in digests.damages),
                             key=lambda damage: (damage.offset, damage.directory))
    by_number: list[dict[int, Block]] = [{block.number: block for block in digests.blocks}
                                         for digests in found.values()]
    for number in sorted({number for blocks in by_number for number in blocks}):
        if len({blocks.get(number) for blocks in by_number}) > 1:
            _locate(scope, number, block_offsets, verdict)
            break
    return verdict


def _locate(scope: Scope, number: int, block_offsets: int, verdict: Verdict) -> None:
    """Note the first offset of the block at which the replicas differ, and the content of each there."""
    start = max(number * block_offsets, scope.start)
    end = min((number + 1) * block_offsets, scope.end)
    walks = [identities(DigestTask(*scope.name, replica.directory, start, end, block_offsets, 0))
             for replica in scope.replicas]
    for versions in zip_longest(*walks):
        if len(set(versions)) > 1:
            verdict.divergent_offset = min(each.base_offset for each in versions if each is not None)
            verdict.versions = {replica.label: _described(each, verdict.divergent_offset)
                                for replica, each in zip(scope.replicas, versions, strict=True)}
            return


def _described(batch: BatchIdentity | None, offset: int) -> str:
    if batch is None or batch.base_offset > offset:
        return "nothing readable"
    return (f"offsets {batch.base_offset} to {batch.last_offset}, epoch {batch.leader_epoch}, "
            f"{batch.size_bytes} bytes, {batch.digest[:16]}")
