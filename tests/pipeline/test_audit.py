"""`kraft pipeline audit`: batches compare as equal wherever segments end, and every difference has its offset."""

import json
import shutil
from pathlib import Path

import pytest

from kraft.cli.command import run
from kraft.files.partition_files import PartitionFiles
from kraft.pipeline import audit
from kraft.pipeline.audit import Verdict
from kraft.pipeline.digest import DigestTask, digest_range
from kraft.pipeline.replicas import find_replicas
from kraft.pipeline.workers import Threads
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.segment.checkpoints import write_offsets
from tests.golden import golden, needs_golden
from tests.pipeline.replicas import batches, set_high_watermark, write

SEGMENT_BYTES = (1 << 20, 700, 1500)
COUNT = 40
END = 5 * COUNT


@pytest.fixture
def nodes(tmp_path: Path) -> list[Path]:
    """Three nodes with the same 200 records in segments of their own sizes."""
    for number, segment_bytes in enumerate(SEGMENT_BYTES):
        write(tmp_path / f"node{number}", number, batches(COUNT), segment_bytes=segment_bytes)
    return [tmp_path / f"node{number}" for number in range(3)]


def verdict(nodes: list[Path], block_offsets: int = 16, task_bytes: int = 1) -> Verdict:
    scopes = [audit.scope_of(replicas) for replicas in find_replicas(nodes).values()]
    [found] = audit.run(scopes, Threads(2), block_offsets=block_offsets, task_bytes=task_bytes)
    return found


def with_other_batch(node: Path, number: int, tmp_path: Path) -> None:
    """Rewrite the node's log, sound, with another value in one batch."""
    data = batches(COUNT)
    data[number] = batches(COUNT, value=b"VALUE")[number]
    shutil.rmtree(node)
    write(node, 1, data, segment_bytes=700)


@pytest.mark.parametrize("block_offsets", [1, 16, 1 << 16])
@pytest.mark.parametrize("task_bytes", [1, 3000, 1 << 30])
def test_segment_borders_do_not_matter(nodes: list[Path], block_offsets: int, task_bytes: int) -> None:
    assert len({len(PartitionFiles(node / "orders-0").segments) for node in nodes}) == 3
    found = verdict(nodes, block_offsets, task_bytes)
    assert found.sound
    assert (found.start, found.end, found.records, len(found.replicas)) == (0, END, END, 3)


def test_damage_is_named_and_is_a_difference(nodes: list[Path]) -> None:
    partition = PartitionFiles(nodes[2] / "orders-0")
    path = partition.segments[1].path(".log")
    data = bytearray(path.read_bytes())
    data[90] ^= 1
    path.write_bytes(data)
    found = verdict(nodes)
    base = partition.segments[1].base_offset
    assert [(damage.file, damage.position, damage.offset, damage.next_offset) for damage in found.damages] == [
        (path.name, 0, base, base + 5)]
    assert found.divergent_offset == base
    assert [version.startswith("nothing readable") for version in found.versions.values()] == [False, False, True]


@pytest.mark.parametrize("number", [0, 17, COUNT - 1])
def test_other_bytes_with_a_right_checksum(nodes: list[Path], tmp_path: Path, number: int) -> None:
    with_other_batch(nodes[1], number, tmp_path)
    found = verdict(nodes)
    assert (found.damages, found.divergent_offset) == ([], 5 * number)
    first, second, third = found.versions.values()
    assert first == third != second


def test_only_what_is_committed_everywhere_is_compared(nodes: list[Path], tmp_path: Path) -> None:
    with_other_batch(nodes[1], 20, tmp_path)
    set_high_watermark(nodes[2], 100)
    assert verdict(nodes).sound
    set_high_watermark(nodes[2], 105)
    assert verdict(nodes).divergent_offset == 100


def test_a_lost_end_is_a_difference(nodes: list[Path], tmp_path: Path) -> None:
    shutil.rmtree(nodes[0])
    write(nodes[0], 0, batches(COUNT)[:30])
    set_high_watermark(nodes[0], END)
    found = verdict(nodes)
    assert (found.divergent_offset, next(iter(found.versions.values()))) == (150, "nothing readable")


def test_only_what_everybody_must_still_have(nodes: list[Path], tmp_path: Path) -> None:
    with_other_batch(nodes[1], 3, tmp_path)
    write_offsets(nodes[0] / "log-start-offset-checkpoint", {("orders", 0): 20})
    (nodes[0] / "orders-0" / "kraft-log-state").unlink()
    found = verdict(nodes)
    assert (found.sound, found.start, found.records) == (True, 20, END - 20)
    write_offsets(nodes[0] / "log-start-offset-checkpoint", {})
    assert verdict(nodes).divergent_offset == 15
    write_offsets(nodes[0] / "cleaner-offset-checkpoint", {("orders", 0): 20})
    assert verdict(nodes).sound


def test_a_start_within_a_batch_takes_the_whole_batch(nodes: list[Path]) -> None:
    tasks = [DigestTask("orders", 0, str(node / "orders-0"), 101, 103, 16, 0) for node in nodes]
    assert all(digest_range(task).blocks == [] for task in tasks)
    tasks = [task._replace(end=105) for task in tasks]
    found = [digest_range(task).blocks for task in tasks]
    assert found[0] == found[1] == found[2]
    assert [(block.number, block.records) for block in found[0]] == [(6, 5)]


def test_wrong_index_entries_lead_nowhere(nodes: list[Path]) -> None:
    index = nodes[0] / "orders-0" / f"{0:020}.index"
    index.write_bytes(b"".join(number.to_bytes(4, "big") + (7 * number + 1).to_bytes(4, "big")
                               for number in range(1, 200)))
    task = DigestTask("orders", 0, str(nodes[0] / "orders-0"), 100, 150, 16, 0)
    assert digest_range(task) == digest_range(task._replace(directory=str(nodes[1] / "orders-0")))


def test_an_unreadable_checkpoint_is_refused(nodes: list[Path]) -> None:
    (nodes[0] / "replication-offset-checkpoint").write_text("no")
    with pytest.raises(InvalidArgumentError, match="nobody knows what is committed"):
        verdict(nodes)


def test_the_command(nodes: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "audit", *map(str, nodes)]) == 0
    assert "1 partition: all sound" in capsys.readouterr().out
    with_other_batch(nodes[1], 7, tmp_path)
    assert run(["pipeline", "audit", "--json", "--threads", "1", *map(str, nodes)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["sound"], found["divergent_offset"], found["records"]) == (False, 35, END)
    assert run(["pipeline", "audit", *map(str, nodes)]) == 1
    assert "orders-0 at offset 35, node 1" in capsys.readouterr().out
    assert run(["pipeline", "audit", "--topic", "none", str(nodes[0])]) == 2


@needs_golden
def test_files_of_kafka_are_read(tmp_path: Path) -> None:
    """Every topic of a directory of Kafka's, beside a copy of it."""
    top = golden("log", "data")
    shutil.copytree(top, tmp_path / "copy")
    scopes = [audit.scope_of(replicas) for replicas in find_replicas([top, tmp_path / "copy"]).values()]
    found = list(audit.run(scopes, Threads(2)))
    assert len(found) >= 40
    assert all(each.sound for each in found)
    assert sum(each.records for each in found) > 4_000
