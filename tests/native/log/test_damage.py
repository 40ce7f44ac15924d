"""Random damage to any file of a log: no sound batch is lost, no other batch is served, and the log continues."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kraft_native.batch.batch import LEADER_EPOCH_AT, MAGIC_AT, walk
from kraft_native.facade.log import Log
from tests.native.logs import batch
from tests.native.recovery_logs import answers, as_served, config, original, right_answers, segments, template
from tests.native.unclean_cases import serve
from tests.oracle.damage import Found

NAMES = st.deferred(lambda: st.sampled_from(sorted(
    path.name for path in template().iterdir() if path.name not in (".lock", "kraft.live"))))


@st.composite
def damages(draw):
    """Draw (file name, content or None): one file damaged in one way."""
    name = draw(NAMES)
    data = bytearray((template() / name).read_bytes())
    kind = draw(st.sampled_from(["flip", "cut", "zero", "garbage", "remove", "longer"]))
    if kind == "remove":
        return name, None
    if kind == "longer" or not data:
        return name, bytes(data) + draw(st.binary(min_size=1, max_size=80))
    start = draw(st.integers(0, len(data) - 1))
    if kind == "flip":
        data[start] ^= draw(st.integers(1, 255))
    elif kind == "cut":
        del data[start:]
    else:
        size = min(draw(st.integers(1, 300)), len(data) - start)
        data[start:start + size] = bytes(size) if kind == "zero" else draw(st.binary(min_size=size, max_size=size))
    return name, bytes(data)


def without_epoch(data: bytes) -> bytes:
    """Return the bytes without the leader epoch, which lies outside the CRC."""
    return data[:LEADER_EPOCH_AT] + data[MAGIC_AT:]


def survivors(directory: Path) -> tuple[list[Found], list[Found]]:
    """Return original batches whose bytes are still in place, and those that kept all but their leader epoch."""
    left: list[Found] = []
    other_epoch: list[Found] = []
    starts = [int(path.stem) for path in segments(template())]
    for found in original():
        path = directory / f"{max(start for start in starts if start <= found.base_offset):020d}.log"
        content = path.read_bytes()[found.position:found.end] if path.exists() else b""
        if content == found.data:
            left.append(found)
        elif without_epoch(content) == without_epoch(found.data):
            other_epoch.append(found)
    return left, other_epoch


@given(st.lists(damages(), min_size=1, max_size=2))
def test_whatever_happens_to_files_no_sound_batch_is_lost_and_no_other_is_served(changes):
    logs = [name for name, _ in changes if name.endswith(".log")]
    if logs and "kraft-log-state" in dict(changes):
        return                         # nothing then states where the log ended
    with tempfile.TemporaryDirectory() as top:
        directory = Path(shutil.copytree(template(), Path(top) / "log-0"))
        for name, content in changes:
            if content is None:
                (directory / name).unlink(missing_ok=True)
            else:
                (directory / name).write_bytes(content)
        left, other_epoch = survivors(directory)
        # One of two damages may have hit the data that the epochs are compared with.
        doubtful = {"leader-epoch-checkpoint", "kraft-log-state"} & set(dict(changes))
        others = {(found.base_offset, without_epoch(found.data)) for found in other_epoch if doubtful}
        with Log(directory, config()) as log:
            served = serve(log)
            assert [found for found in as_served(served.batches)
                    if (found[0], without_epoch(found[2])) not in others] == as_served(left)
            if "kraft-log-state" not in dict(changes):
                assert log.log_end_offset == original()[-1].last_offset + 1
            if not logs:
                assert answers(log) == right_answers()
            end = log.log_end_offset
            assert log.append(batch()).first_offset == end
        with Log(directory, config()) as log:
            again = serve(log).batches
            assert as_served(again)[:-1] == as_served(served.batches)
            assert again[-1].base_offset == end
            assert {error.offset for error in serve(log).refused} == {error.offset for error in served.refused}
            assert sum(1 for _ in walk(b"".join(found.data for found in again))) == len(again)
