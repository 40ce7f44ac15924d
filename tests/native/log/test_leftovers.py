"""Files that interrupted work may leave in a log's directory, in any combination: the names decide which of them are
used."""

import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_native.facade.log import Log
from tests.native.logs import readable
from tests.native.recovery_logs import bases, config, flip, original, segments, template

LITTER = ("00000000000000000000.log.deleted", "00000000000000000900.timeindex.deleted", "leader-epoch-checkpoint.tmp",
          "00000000000000000000.index.cut")
CHECKED = st.integers(17, 60)
"""Bytes of a batch that its checksum covers, or that hold the checksum."""
LEFT = (".deleted", ".tmp", ".cut", ".cleaned", ".swap")


@given(st.data())
def test_a_swap_that_stopped_anywhere(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Compaction writes one segment for each of up to two runs of segments. It names them `.cleaned`, renames them
    to `.swap` from the last to the first, and only then removes sources. Here it keeps every record. All must be
    present afterwards, once, whichever files were used or dropped."""
    directory = shutil.copytree(template(), tmp_path_factory.mktemp("leftovers") / "log-0")
    sources = segments(directory)[:-1]
    cuts = data.draw(st.lists(st.integers(0, len(sources)), min_size=2, max_size=4, unique=True).map(sorted))
    runs = [sources[start:end] for start, end in zip(cuts[::2], cuts[1::2], strict=False)]
    renamed = data.draw(st.integers(0, len(runs)), label="outputs that are .swap")
    complete = renamed == len(runs)
    wanted = bases_of(sources) | {int(segments(directory)[-1].stem)}
    outputs = set()
    for number, run in enumerate(runs):
        suffix = ".swap" if number >= len(runs) - renamed else ".cleaned"
        output = directory / f"{run[0].name}{suffix}"
        output.write_bytes(b"".join(path.read_bytes() for path in run))
        # The files of one segment are renamed one after the other.
        index = output.with_name(output.name.replace(".log", ".index"))
        if number == len(runs) - renamed - 1 and data.draw(st.booleans(), label="its index is .swap already"):
            index = index.with_suffix(".swap")
        index.touch()
        outputs |= {output.name, index.name}
        if complete and data.draw(st.booleans(), label="damaged"):
            flip(output, data.draw(CHECKED))
        elif complete:
            for path in data.draw(st.lists(st.sampled_from(run), unique=True), label="removed"):
                path.unlink()
            wanted -= bases_of(run[1:])
    litter = data.draw(st.lists(st.sampled_from(LITTER), unique=True))
    for name in litter:
        (directory / name).write_bytes(b"anything")
    with Log(directory, config()) as log:
        assert readable(log) == ([(found.base_offset, found.last_offset) for found in original()], [])
        assert bases(log) == sorted(wanted)
        assert set(log.recovery.removed) >= set(litter)
        assert complete or set(log.recovery.removed) == outputs | set(litter)
    assert not [name for name in os.listdir(directory) if name.endswith(LEFT)]
    shutil.rmtree(directory)


def bases_of(paths: list[os.PathLike[str]]) -> set[int]:
    return {int(os.path.basename(path)[:20]) for path in paths}
