"""Copies of a log: they open, verify, have the same records, and do not change."""

from pathlib import Path

import pytest

from kraft import Log, errors
from kraft.backup import check_backup
from kraft.cli.command import run
from kraft.log_dir import LogDir
from tests.cli.partitions import flip


def filled(directory: Path, **settings: object) -> Log:
    log = Log.open(directory, segment_bytes=2000, **settings)  # type: ignore[arg-type]
    for number in range(100):
        log.append_record(b"value %d" % number, b"key %d" % (number % 7), headers={"n": b"%d" % number})
    return log


@pytest.mark.parametrize("durability", ["page-cache", "group-commit"])
def test_a_copy_holds_the_same(tmp_path: Path, durability: str, capsys: pytest.CaptureFixture[str]) -> None:
    with filled(tmp_path / "log", durability=durability) as log:
        log.flush()
        log.delete_records(30)
        wanted = [(each.offset, each.key, each.value, each.headers, each.timestamp_ms) for each in log]
        made = log.backup(tmp_path / "copy-0")
        assert (made.log_start_offset, made.log_end_offset) == (30, 100)
        assert set(made.files) == {f"{each.base_offset:020d}.log" for each in log.segments}
        for number in range(50):
            log.append_record(b"later %d" % number)
        log.truncate_to(40)
    assert check_backup(tmp_path / "copy-0") == []
    assert run(["log", "verify", str(tmp_path / "copy-0")]) == 0
    assert capsys.readouterr().out.endswith(": sound\n")
    with Log(tmp_path / "copy-0") as copy:
        assert copy.recovery.clean
        assert [(each.offset, each.key, each.value, each.headers, each.timestamp_ms) for each in copy] == wanted
        assert copy.append_record(b"and on") == 100


def test_damage_of_a_copy_is_found(tmp_path: Path) -> None:
    with filled(tmp_path / "log") as log:
        made = log.backup(tmp_path / "copy")
    names = list(made.files)
    flip(tmp_path / "copy" / names[1], 100)
    (tmp_path / "copy" / names[2]).unlink()
    assert check_backup(tmp_path / "copy") == names[1:3]
    (tmp_path / "copy" / "backup.json").write_text("{}")
    with pytest.raises(errors.CorruptFileError, match="no manifest"):
        check_backup(tmp_path / "copy")


def test_existing_files_are_not_touched(tmp_path: Path) -> None:
    with filled(tmp_path / "log") as log:
        (tmp_path / "copy").mkdir()
        with pytest.raises(errors.InvalidArgumentError, match="exists"):
            log.backup(tmp_path / "copy")
        with pytest.raises(errors.InvalidArgumentError, match="there is no directory"):
            log.backup(tmp_path / "none" / "copy")
        (tmp_path / "again.part").mkdir()
        (tmp_path / "again.part" / "rest").touch()
        log.backup(tmp_path / "again")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "copy", "log"]


def test_a_partition_of_a_data_directory(tmp_path: Path) -> None:
    with LogDir(tmp_path / "data", node_id=1) as directory:
        log = directory.log("orders", 0)
        log.append_record(b"a")
        log.backup(tmp_path / "orders-0")
    with LogDir(tmp_path / "restored", node_id=1) as directory:
        (tmp_path / "orders-0").rename(tmp_path / "restored" / "orders-0")
        found = directory.log("orders", 0, create=False).get(0)
        assert found is not None and found.value == b"a"
