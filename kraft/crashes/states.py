"""Selection of the crash states to try: all simple ones near the newest operations, and random ones."""

import itertools
from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

from kraft.crashes.disk import SECTOR_BYTES, Choice, Content, Disk, FileChoice, FileOp, Span, State, keep_all
from kraft_native.file.faults import Event

NEWEST = 4              # operations of a file whose loss, one at a time, is tried at every point
OLDER = 2               # older ones, drawn at random
BOUNDARIES = 12         # places inside one write at which it is torn or cut


class Found(NamedTuple):
    label: str
    state: State


def lose_all(ops: list[FileOp]) -> FileChoice:
    return FileChoice(0, ((),) * len(ops))


def lose_data(ops: list[FileOp]) -> FileChoice:
    """Keep the size but not the data: zeros."""
    return FileChoice(len(ops), ((),) * len(ops))


def with_spans(ops: list[FileOp], number: int, spans: tuple[Span, ...], sizes: int | None = None) -> FileChoice:
    """Keep everything, but of the data of one operation only `spans`."""
    kept = keep_all(ops)
    changed = (*kept.spans[:number], spans, *kept.spans[number + 1:])
    return FileChoice(len(ops) if sizes is None else sizes, changed)


def sectors(op: FileOp) -> list[int]:
    """Return positions inside the data at which a new sector of the file begins."""
    first = -op.offset % SECTOR_BYTES or SECTOR_BYTES
    return list(range(first, len(op.data), SECTOR_BYTES))


def thinned(values: list[int], random: Random, bound: int) -> list[int]:
    """Return the two ends and a random selection between them."""
    if len(values) <= bound:
        return values
    return sorted({values[0], values[-1], *random.sample(values, bound - 2)})


def loss_of(disk: Disk, inodes: Iterable[int]) -> dict[int, FileChoice]:
    return {inode: lose_all(disk.inodes[inode].pending) for inode in inodes}


def whole_choices(disk: Disk, files: list[int]) -> Iterator[tuple[str, Choice]]:
    """Keep or lose everything of one kind, with each number of directory operations from the first on."""
    names = disk.all_names()
    yield "all kept", Choice({}, names)
    if not files and not names:
        return
    yield "all lost", Choice(loss_of(disk, files), ())
    yield "names kept, data lost", Choice(loss_of(disk, files), names)
    holes = {inode: lose_data(disk.inodes[inode].pending) for inode in files}
    yield "names and sizes kept, data lost", Choice(holes, names)
    for count in range(len(names)):
        yield f"{count} of {len(names)} name operations kept", Choice({}, names[:count])
        yield f"{count} name operations kept, data lost", Choice(loss_of(disk, files), names[:count])
        yield f"name operation {count} alone lost", Choice({}, (*names[:count], *names[count + 1:]))
    for inode in files:
        ops = disk.inodes[inode].pending
        yield f"file {inode} lost", Choice({inode: lose_all(ops)}, names)
        yield f"file {inode}: data lost", Choice({inode: lose_data(ops)}, names)
        yield f"only file {inode} kept", Choice(loss_of(disk, set(files) - {inode}), names)


def single_choices(disk: Disk, files: list[int], random: Random) -> Iterator[tuple[str, Choice]]:
    """Lose one operation of one file, tear it at a sector, or keep the old size with the new data."""
    names = disk.all_names()
    for inode in files:
        ops = disk.inodes[inode].pending
        numbers = set(range(max(0, len(ops) - NEWEST), len(ops)))
        numbers.update(random.sample(range(len(ops)), min(OLDER, len(ops))))
        for number in sorted(numbers):
            op = ops[number]
            yield f"file {inode}: sizes end at {number}", Choice({inode: keep_all(ops)._replace(sizes=number)}, names)
            if op.kind != "write":
                continue
            yield f"file {inode}: write {number} lost", Choice({inode: with_spans(ops, number, ())}, names)
            for at in thinned(sectors(op), random, BOUNDARIES):
                head, tail = ((0, at),), ((at, len(op.data)),)
                label = f"file {inode}: write {number} torn at {at}"
                yield f"{label}, head kept", Choice({inode: with_spans(ops, number, head)}, names)
                yield f"{label}, tail kept", Choice({inode: with_spans(ops, number, tail)}, names)
                if number == len(ops) - 1:
                    cut = FileChoice(len(ops), keep_all(ops).spans)
                    yield f"{label}, cut", Choice({inode: cut_at(cut, number, at)}, names)


def cut_at(choice: FileChoice, number: int, at: int) -> FileChoice:
    """Cut the last write, and the file, at `at`: expressed as a size that was not updated.

    Metadata cannot express a size between two operations here. The state is therefore the shorter one: data up to
    `at`, and the size before the write.
    """
    return FileChoice(number, (*choice.spans[:number], ((0, at),)))


def random_spans(op: FileOp, random: Random) -> tuple[Span, ...]:
    draw = random.random()
    if not op.data or draw < 0.3:
        return ()
    if draw < 0.6:
        return ((0, len(op.data)),)
    edges = [0, *sectors(op), len(op.data)]
    return tuple(span for span in itertools.pairwise(edges) if random.random() < 0.5)


def random_choices(disk: Disk, files: list[int], random: Random, count: int) -> Iterator[tuple[str, Choice]]:
    names = disk.all_names()
    for number in range(count):
        chosen = {}
        for inode in files:
            ops = disk.inodes[inode].pending
            if random.random() < 0.3:
                continue
            sizes = len(ops) if random.random() < 0.5 else random.randint(0, len(ops))
            chosen[inode] = FileChoice(sizes, tuple(random_spans(op, random) for op in ops))
        if random.random() < 0.6:
            kept = names[:random.randint(0, len(names))]
        else:
            kept = tuple(name for name in names if random.random() < 0.7)
        yield f"random {number}", Choice(chosen, kept)


def power_loss_states(disk: Disk, random: Random, random_count: int) -> Iterator[Found]:
    """Yield states that may be found after a power loss at this point."""
    files = list(disk.pending_files())
    for label, choice in whole_choices(disk, files):
        yield Found(label, disk.state(choice))
    for label, choice in single_choices(disk, files, random):
        yield Found(label, disk.state(choice))
    if files or disk.name_ops:
        for label, choice in random_choices(disk, files, random, random_count):
            yield Found(label, disk.state(choice))


def cut_positions(size: int, random: Random) -> list[int]:
    """Return bytes inside a write at which a killed process may have stopped: the header's fields, the ends, some
    between."""
    fixed = [at for at in (1, 8, 12, 16, 17, 21, 23, 61, 62, size - 1) if 0 < at < size]
    return sorted({*fixed, *(random.randrange(1, size) for _ in range(4 if size > 1 else 0))})


def killed_states(disk: Disk, event: Event, random: Random) -> Iterator[Found]:
    """Yield states of a process that was killed inside the last write fed to `disk`: its first bytes are in the page
    cache."""
    if event.kind != "write" or event.error or len(event.data) < 2:
        return
    inode = disk.inode_of(event)
    pending = disk.inodes[inode].pending
    whole = pending.pop()
    for at in cut_positions(len(event.data), random):
        pending.append(whole._replace(data=whole.data[:at]))
        yield Found(f"inside the write at byte {at}", disk.state(Choice({}, disk.all_names())))
        pending.pop()
    pending.append(whole)


def flipped(content: Content, position: int, bit: int) -> Content:
    data = bytearray(content.data.ljust(position + 1, b"\0"))
    data[position] ^= 1 << bit
    return Content(bytes(data).rstrip(b"\0"), content.size)
