"""Files that can be rebuilt from others: damaged, empty, unreadable, or a directory in their place."""

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from kraft import LogDir
from kraft.log_dir import CLEAN_SHUTDOWN, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from kraft_native.file import faults
from kraft_native.segment import checkpoints
from tests.native.logs import batch
from tests.native.recovery_logs import answers, as_served, config, fill, original, right_answers
from tests.native.unclean_cases import serve

CLEANER_POINTS = "cleaner-offset-checkpoint"
DIRECTORY_FILES = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_POINTS, CLEAN_SHUTDOWN)
LOG_FILES = ("leader-epoch-checkpoint", "kraft-log-state", "partition.metadata", "first .index", "first .timeindex",
             "last .index", "last .timeindex", "first .txnindex", "last .snapshot")

Damage = Callable[[Path], AbstractContextManager[object]]


def garbage(path: Path) -> AbstractContextManager[object]:
    path.write_bytes(b"\xff\x00garbage\n")
    return nullcontext()


def empty(path: Path) -> AbstractContextManager[object]:
    path.write_bytes(b"")
    return nullcontext()


def directory(path: Path) -> AbstractContextManager[object]:
    path.unlink()
    path.mkdir()
    (path / "kept").write_text("what is in it is not ours to delete")
    return nullcontext()


def unreadable(path: Path) -> AbstractContextManager[object]:
    @contextmanager
    def refuse() -> Iterator[None]:
        with faults.fail_at(1, error=errno.EACCES, kinds={"open"}, under=path) as plan:
            yield
        assert plan.fired or path.name in ("partition.metadata", CLEANER_POINTS)

    return refuse()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with one log, cleanly closed."""
    top = tmp_path_factory.mktemp("derived") / "data"
    with LogDir(top, config=config()) as opened:
        fill(opened.log("t", 0))
    checkpoints.write_offsets(top / CLEANER_POINTS, {("t", 0): 0})
    return top


def chosen(top: Path, name: str) -> Path:
    which, _, suffix = name.partition(" ")
    if not suffix:
        return top / "t-0" / name if name in LOG_FILES else top / name
    return sorted((top / "t-0").glob(f"*{suffix}"))[0 if which == "first" else -1]


@pytest.mark.parametrize("damage", [garbage, empty, directory, unreadable])
@pytest.mark.parametrize("name", [*DIRECTORY_FILES, *LOG_FILES])
def test_a_derived_file_that_cannot_be_used_costs_nothing(
        tmp_path: Path, template: Path, name: str, damage: Damage) -> None:
    top = Path(shutil.copytree(template, tmp_path / "data"))
    with damage(chosen(top, name)), LogDir(top, config=config()) as opened:
        if name == CLEAN_SHUTDOWN:
            assert opened.was_clean == (damage is empty), "an empty one is Kafka's of before 3.8"
        log = opened.log("t", 0)
        assert log.recovery.intact
        assert as_served(serve(log).batches) == as_served(original())
        assert answers(log) == right_answers()
        log.append(batch())
        log.flush()
        opened.checkpoint()
        reported = [*opened.notes, *(path for path, _ in log.recovery.ignored), *log.recovery.removed]
        if damage is not empty and name in (*DIRECTORY_FILES[:3], CLEAN_SHUTDOWN, *LOG_FILES[:2]):
            assert any(name in each for each in reported), "it is reported"
    if damage is directory:
        assert [path.read_text() for path in top.rglob("kept")] == ["what is in it is not ours to delete"]
    with LogDir(top, config=config()) as opened:
        assert opened.was_clean
        assert opened.notes == []
        log = opened.log("t", 0)
        assert log.recovery.clean
        assert log.recovery.intact
        assert log.log_end_offset == original()[-1].last_offset + 2
