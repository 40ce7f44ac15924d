"""Leader epochs rebuilt from the batches when their file is missing, against the epochs that were appended."""

import shutil
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_native.batch.batch import LEADER_EPOCH_AT
from kraft_native.facade.log import Log
from tests.native.logs import batch, small
from tests.native.recovery_logs import segments

LIVES = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 3]), st.sampled_from([False, False, True])), min_size=1,
                 max_size=40)
"""Rise of the epoch before each batch, and whether a segment begins with it."""


def epochs_of(life: list[tuple[int, bool]]) -> list[int]:
    return list(accumulate(step for step, _roll in life))


def inside(life: list[tuple[int, bool]]) -> list[int]:
    """Return the offsets with two batches before them and one behind them of one epoch."""
    epochs = epochs_of(life)
    return [offset for offset in range(2, len(epochs) - 1) if epochs[offset - 2] == epochs[offset + 1]]


def written(directory: Path, life: list[tuple[int, bool]]) -> list[int]:
    """Write a closed log of one-record batches without a note of its epochs; return the epoch of each."""
    epochs = epochs_of(life)
    with Log(directory, small()) as log:
        for offset, (_step, roll) in enumerate(life):
            if roll:
                log.roll()
            log.append_as_follower(batch(base_offset=offset, leader_epoch=epochs[offset]))
    for name in ("leader-epoch-checkpoint", "kraft-log-state"):
        (directory / name).unlink()
    return epochs


def starts(epochs: list[int]) -> list[tuple[int, int]]:
    return [(epoch, offset) for offset, epoch in enumerate(epochs) if offset == 0 or epochs[offset - 1] != epoch]


@given(LIVES)
def test_epochs_begin_where_their_first_batch_does(tmp_path_factory: pytest.TempPathFactory,
                                                   life: list[tuple[int, bool]]) -> None:
    directory = tmp_path_factory.mktemp("epochs") / "log"
    epochs = written(directory, life)
    with Log(directory, small()) as log:
        assert log.epochs.entries() == starts(epochs)
    shutil.rmtree(directory)


@given(LIVES.filter(inside), st.data())
def test_one_changed_epoch_among_others_is_none(tmp_path_factory: pytest.TempPathFactory, life: list[tuple[int, bool]],
                                                data: st.DataObject) -> None:
    """The two batches before it and the one behind it have the same epoch."""
    directory = tmp_path_factory.mktemp("epochs") / "log"
    epochs = written(directory, life)
    changed = data.draw(st.sampled_from(inside(life)))
    wrong = data.draw(st.one_of(st.sampled_from(range(max(epochs) + 2)), st.integers(-2**31, 2**31 - 1)))
    path = max(path for path in segments(directory) if int(path.stem) <= changed)
    content = bytearray(path.read_bytes())
    position = (changed - int(path.stem)) * len(batch()) + LEADER_EPOCH_AT
    content[position:position + 4] = wrong.to_bytes(4, "big", signed=True)
    path.write_bytes(content)
    with Log(directory, small()) as log:
        assert log.epochs.entries() == starts(epochs)
    shutil.rmtree(directory)
