"""The damage cases of `golden/unclean`: a copy to open, Kafka's result, our result, and a table of both.

`python -m tests.native.unclean_cases` writes the table into docs/internals/recovery.md; a test compares it.
"""

import functools
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kraft_native.base.errors import CorruptLogError
from kraft_native.batch.batch import walk
from kraft_native.facade.log import Log
from kraft_native.segment.config import LogConfig
from tests.golden import REPOSITORY, golden, golden_root, load_json
from tests.oracle.damage import Found, read_log

DOCUMENT = REPOSITORY / "docs" / "internals" / "recovery.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
FOREVER_MS = 1 << 60
# Kafka was started with this damage alone: the logs of `undamaged`, and a line that is no epoch in their checkpoint.
UNREADABLE_EPOCHS = "epoch-cp-garbage"


@dataclass(frozen=True)
class Case:
    """One damaged partition, in a log directory after a kill or a clean stop."""

    mode: str
    topic: str

    def __str__(self) -> str:
        return f"{self.mode}-{self.topic}"

    @property
    def expected(self) -> dict[str, Any]:
        document: dict[str, Any] = load_json(golden("unclean", self.mode, "expected.json"))
        if self.topic == UNREADABLE_EPOCHS:
            return document["cases"]["undamaged"] | {
                "damage": {"garbage_in": "leader-epoch-checkpoint"},
                "kafka_dies_at_start": document["epoch_cp_garbage"]["log_lines"],
            }
        found: dict[str, Any] = document["cases"][self.topic]
        return found

    @property
    def transactional(self) -> bool:
        return self.topic.startswith("txn")

    def copy(self, target: Path) -> Path:
        """Copy the partition, writable, into a copy of the log directory's own files, with their times."""
        source = golden("unclean", self.mode, "data")
        for path in source.iterdir():
            if path.is_file():
                shutil.copy2(path, target / path.name)
        partition = source / f"{self.topic}-0"
        if self.topic == UNREADABLE_EPOCHS:
            partition = golden("unclean", self.mode, "data-epoch-cp-garbage", "undamaged-0")
        return writable(shutil.copytree(partition, target / partition.name))


def writable(directory: Path) -> Path:
    for path in (directory, *directory.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return directory


def cases() -> list[Case]:
    if golden_root() is None:
        return []
    found = [Case(mode, topic) for mode in ("killed", "clean")
             for topic in load_json(golden("unclean", mode, "expected.json"))["cases"]]
    return [*found, Case("killed", UNREADABLE_EPOCHS)]


def open_log(directory: Path) -> Log:
    return Log(directory, LogConfig(producer_id_expiration_ms=FOREVER_MS))


@dataclass(frozen=True)
class Served:
    """Content that a log serves from its start to its end, and the ranges that it refuses."""

    batches: list[Found]
    refused: list[CorruptLogError]


def serve(log: Log, isolation: str = "log_end") -> Served:
    batches: list[Found] = []
    refused = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            piece = log.read(offset, 1000, isolation=isolation)
        except CorruptLogError as error:
            assert offset <= error.offset < error.next_offset, f"reading from {offset} on leads nowhere: {error}"
            refused.append(error)
            offset = error.next_offset
            continue
        if not len(piece):
            break
        batches += [Found(0, batch.base_offset, batch.last_offset, bytes(batch)) for batch in walk(piece)]
        offset = piece.next_offset
    return Served(batches, refused)


# --- the table -------------------------------------------------------------------------------------------------------


def spans(offsets: set[int]) -> str:
    """Return offsets as ranges: `3, 7 to 9`."""
    parts: list[list[int]] = []
    for offset in sorted(offsets):
        if parts and parts[-1][1] == offset - 1:
            parts[-1][1] = offset
        else:
            parts.append([offset, offset])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in parts)


def offsets_of(batches: list[tuple[int, int]]) -> set[int]:
    return {offset for first, last in batches for offset in range(first, last + 1)}


def damage_text(case: Case) -> str:
    damage = case.expected["damage"]
    if not damage:
        return "none"
    if "removed_files" in damage:
        names = [Path(name).suffix.strip(".") or name for name in damage["removed_files"]]
        return f"{len(names)} {names[0]} removed" if Path(damage["removed_files"][0]).suffix else f"{names[0]} removed"
    if "garbage_in" in damage:
        return f"garbage in {damage['garbage_in']}"
    name = Path(damage["file"]).suffix
    old = " of the oldest segment" if damage["file"].startswith("0" * 20) else ""
    match next((key, value) for key, value in damage.items() if key != "file"):
        case "cut_at", value:
            return f"{name}{old} cut to {value} bytes"
        case "truncated_to", value:
            return f"{name}{old} cut to {value} bytes"
        case "zeros", value:
            return f"{value} zeros behind the {name}"
        case "random_bytes", value:
            return f"{value} random bytes behind the {name}" if name == ".log" else f"{name}{old} of random bytes"
        case "flipped_byte", value:
            return f"byte {value} of the {name}{old} flipped"
        case "removed", _:
            return f"{name} removed"
        case key, value:
            return f"{key.replace('_', ' ')} {value}"


def kafka_text(case: Case, valid: list[Found]) -> str:
    expected = case.expected
    if "kafka_dies_at_start" in expected:
        return "**the broker does not start**"
    answer = expected["kafka_after_restart"]
    served = offsets_of([(first, last) for first, last, _ in answer["batches"]])
    wrong = offsets_of([(first, last) for first, last, sound in answer["batches"] if not sound])
    lost = offsets_of([(batch.base_offset, batch.last_offset) for batch in valid]) - served
    silent = set(range(answer["earliest"], answer["latest"])) - served
    parts = [f"ends at {answer['latest']}"]
    if lost:
        parts.append(f"**drops the valid {spans(lost)}**")
    if wrong:
        parts.append(f"**serves {spans(wrong)} with a wrong CRC**")
    if silent:
        parts.append(f"**skips {spans(silent)} silently**")
    removed = {name for name in expected["damage"].get("removed_files", ()) if name.endswith(".txnindex")}
    if removed - set(expected["files_after_restart_and_clean_stop"]):
        parts.append("**transaction index stays lost**")
    return ", ".join(parts)


def our_text(log: Log, served: Served) -> str:
    report = log.recovery
    parts = [f"ends at {log.log_end_offset}"]
    if report.cut_bytes:
        parts.append(f"{report.cut_bytes} torn bytes cut off")
    refused = {offset for error in served.refused for offset in range(error.offset, error.next_offset)}
    if refused:
        parts.append(f"{spans(refused)} refused with position {served.refused[0].position}")
    return ", ".join(parts)


@functools.cache
def rows() -> list[str]:
    lines = ["| stop | case | damage | was | valid batches | Kafka 4.3.1 | this engine |", "|" + "---|" * 7]
    for case in cases():
        with tempfile.TemporaryDirectory() as scratch:
            directory = case.copy(Path(scratch))
            valid = read_log(directory)
            with open_log(directory) as log:
                ours = our_text(log, serve(log))
        before = case.expected["before"]
        was = f"{before['earliest']} to {before['latest']}"
        lines.append(f"| {case.mode} | {case.topic} | {damage_text(case)} | {was} | {len(valid)} | "
                     f"{kafka_text(case, valid)} | {ours} |")
    return lines


def table() -> str:
    return "".join(f"{line}\n" for line in rows())


def main() -> None:
    text = DOCUMENT.read_text("utf-8")
    head, rest = text.split(BEGIN)
    DOCUMENT.write_text(head + BEGIN + table() + END + rest.split(END)[1], "utf-8")


if __name__ == "__main__":
    main()
