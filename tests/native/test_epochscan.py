"""Leader epochs made anew from the batches, where their file is gone, against what was appended."""

import shutil
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kraft_native.log import Log
from tests.native.logs import batch, small
from tests.native.recovery_logs import segments

EPOCH_AT = 12
LIVES = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 3]), st.sampled_from([False, False, True])), min_size=1,
                 max_size=40)
"""How far the epoch rises before each batch, and whether a segment begins with it."""


def written(directory: Path, life: list[tuple[int, bool]]) -> list[int]:
    """A closed log of one-record batches without a note of its epochs; gives the epoch of each."""
    epochs = []
    with Log(directory, small()) as log:
        for offset, (step, roll) in enumerate(life):
            epochs.append(step + (epochs[-1] if epochs else 0))
            if roll:
                log.roll()
            log.append_as_follower(batch(base_offset=offset, leader_epoch=epochs[-1]))
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


@settings(max_examples=150)
@given(LIVES, st.data())
def test_one_changed_epoch_among_others_is_none(tmp_path_factory: pytest.TempPathFactory, life: list[tuple[int, bool]],
                                                data: st.DataObject) -> None:
    """Where two batches before it and one behind it have the same."""
    directory = tmp_path_factory.mktemp("epochs") / "log"
    epochs = written(directory, life)
    inside = [offset for offset in range(2, len(epochs) - 1) if epochs[offset - 2] == epochs[offset + 1]]
    assume(inside)
    changed = data.draw(st.sampled_from(inside))
    wrong = data.draw(st.one_of(st.sampled_from(range(max(epochs) + 2)), st.integers(-2**31, 2**31 - 1)))
    path = max(path for path in segments(directory) if int(path.stem) <= changed)
    content = bytearray(path.read_bytes())
    position = (changed - int(path.stem)) * len(batch()) + EPOCH_AT
    content[position:position + 4] = wrong.to_bytes(4, "big", signed=True)
    path.write_bytes(content)
    with Log(directory, small()) as log:
        assert log.epochs.entries() == starts(epochs)
    shutil.rmtree(directory)
