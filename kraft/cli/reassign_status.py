"""Progress of reassignments: waiting for them, and rows with their throttle and remaining time."""

import time
from collections.abc import Collection
from typing import Final

from kraft.cli.options import Fields
from kraft.cli.partition_names import partition_text
from kraft.cli.progress import progress_bar
from kraft.cli.stall import Stall
from kraft.client import Cluster
from kraft.client.partitions import Partition
from kraft.client.reassignments import Ongoing, Progress, ongoing, progress, throttles, total

CHECK_SECONDS: Final = 0.5
Targets = dict[Partition, list[int]]


def under_way(cluster: Cluster, then: Collection[Partition]) -> list[Ongoing]:
    """Return those of these partitions that are being reassigned."""
    found = ongoing(cluster)
    return [found[partition] for partition in then if partition in found]


def wait(cluster: Cluster, then: Collection[Partition]) -> None:
    """Wait until none of these partitions is being reassigned; show a progress bar on a terminal for large copies.

    Raises `RefusedError` when there is no progress for `STALL_SECONDS`: the nodes that must copy may be down.
    """
    stall = Stall("the reassignment")
    found = under_way(cluster, then)
    whole = total(progress(cluster, found)).total_bytes
    with progress_bar("copying", whole) as advance:
        reported = 0
        while found:
            left = total(progress(cluster, found)).left_bytes
            stall.check((left, [each.partition for each in found]))
            done = whole - left     # a partition that is no longer listed is done
            advance(max(0, done - reported))
            reported = max(reported, done)
            time.sleep(CHECK_SECONDS)
            found = under_way(cluster, then)


def status(cluster: Cluster, then: Targets) -> tuple[list[Fields], float | None]:
    """Return a row for each partition and the remaining seconds, None without progress. A row has `done`, `moving`, or
    `elsewhere` for a partition that is neither at its target nor moving there."""
    moving = under_way(cluster, then)
    before, began = progress(cluster, moving), time.monotonic()
    if moving:
        time.sleep(CHECK_SECONDS)
        moving = under_way(cluster, then)
    now, seconds = progress(cluster, moving), time.monotonic() - began
    bounds = throttles(cluster, {each.partition: each.adding for each in moving})
    by_partition = {each.partition: each for each in moving}
    known = assigned(cluster, then)
    if any(known.get(each) != list(targets) for each, targets in then.items() if each not in by_partition):
        time.sleep(CHECK_SECONDS)     # the controller lists reassignments; the node that is queried here may lag
        known = assigned(cluster, then)
    rows: list[Fields] = []
    for partition, targets in then.items():
        each, at = by_partition.get(partition), now.get(partition, Progress(0, 0))
        state = "moving" if each else "done" if known.get(partition) == list(targets) else "elsewhere"
        rows.append({"partition": partition_text(partition), "state": state,
                     "replicas": known.get(partition, []), "targets": list(targets),
                     "adding": list(each.adding) if each else [], "removing": list(each.removing) if each else [],
                     "done_bytes": at.done_bytes, "total_bytes": at.total_bytes,
                     "throttle_bytes": bounds.get(partition),
                     "seconds_left": seconds_left(before.get(partition), at, seconds) if each else None})
    return rows, seconds_left(total(before), total(now), seconds) if moving else None


def assigned(cluster: Cluster, then: Collection[Partition]) -> Targets:
    """Return the replicas of these partitions as the queried node knows them."""
    topics = cluster.metadata(sorted(dict.fromkeys(topic for topic, _ in then))).topics if then else []
    return {(topic.name or "", each.partition_index): list(each.replica_nodes) for topic in topics
            for each in topic.partitions}


def seconds_left(before: Progress | None, now: Progress, seconds: float) -> float | None:
    """Estimate the seconds until all is copied, from the decrease within `seconds`; None without a decrease."""
    copied = 0 if before is None else before.left_bytes - now.left_bytes
    return now.left_bytes * seconds / copied if copied > 0 else None
