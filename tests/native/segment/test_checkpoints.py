"""Checkpoint files: Kafka's bytes both ways, malformed files by line, and our own state file."""

import base64
import errno
import shutil
import string
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kraft_native.base.crc import checksum
from kraft_native.base.errors import CorruptFileError, InvalidArgumentError, StorageError
from kraft_native.file.faults import count_operations, fail_at
from kraft_native.segment import checkpoints
from kraft_native.segment.checkpoints import LogState, MetaProperties
from tests.golden import GoldenPartition, golden, needs_golden, partitions

OFFSET_CHECKPOINTS = ("recovery-point-", "replication-", "log-start-", "cleaner-")


@needs_golden
@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_kafka_partition_files_read_as_dumped_and_write_back_to_the_same_bytes(
    partition: GoldenPartition, tmp_path: Path
) -> None:
    source = partition.directory / "leader-epoch-checkpoint"
    entries = checkpoints.read_leader_epochs(source)
    dumped = partition.expected["dump"]["leader_epoch_checkpoint"].split("\n")[2:]
    assert entries == [tuple(map(int, line.split())) for line in dumped if line]
    checkpoints.write_leader_epochs(tmp_path / source.name, entries)
    assert (tmp_path / source.name).read_bytes() == source.read_bytes()

    topic_id = checkpoints.read_partition_metadata(partition.directory)
    assert topic_id is not None
    checkpoints.write_partition_metadata(tmp_path, topic_id)
    assert (tmp_path / "partition.metadata").read_bytes() == (partition.directory / "partition.metadata").read_bytes()


@needs_golden
def test_kafka_directory_files_read_and_write_back_to_the_same_bytes(tmp_path: Path) -> None:
    directory = golden("log", "data")
    names = {partition.name for partition in partitions()}
    for kind in OFFSET_CHECKPOINTS:
        source = directory / f"{kind}offset-checkpoint"
        offsets = checkpoints.read_offsets(source)
        assert offsets
        assert {f"{topic}-{partition}" for topic, partition in offsets} <= names
        checkpoints.write_offsets(tmp_path / source.name, offsets)
        assert (tmp_path / source.name).read_bytes() == source.read_bytes()
    assert checkpoints.read_offsets(directory / "log-start-offset-checkpoint") == {
        ("delrec", 0): 123, ("delall", 0): 30,
    }
    broker_epoch = checkpoints.read_clean_shutdown(directory)
    assert broker_epoch == 416
    checkpoints.write_clean_shutdown(tmp_path, broker_epoch)
    mark = ".kafka_cleanshutdown"
    assert (tmp_path / mark).read_bytes() == (directory / mark).read_bytes()


@needs_golden
def test_every_golden_meta_properties_reads_and_survives_a_round_trip(tmp_path: Path) -> None:
    sources = sorted(golden().rglob("meta.properties"))
    assert len(sources) > 5
    for source in sources:
        properties = checkpoints.read_meta_properties(source.parent)
        assert properties is not None
        assert properties.version == 1
        assert isinstance(properties.directory_id, uuid.UUID)
        checkpoints.write_meta_properties(tmp_path, properties)
        assert checkpoints.read_meta_properties(tmp_path) == properties
        lines = (tmp_path / "meta.properties").read_text().splitlines()
        kafkas = [line for line in source.read_text().splitlines() if not line.startswith("#")]
        assert sorted(lines) == sorted(kafkas)


@needs_golden
def test_the_golden_garbage_is_refused() -> None:
    (path,) = golden("unclean", "killed", "data-epoch-cp-garbage").rglob("leader-epoch-checkpoint")
    with pytest.raises(CorruptFileError, match="leader-epoch-checkpoint: line 4: 2 fields expected: 'xyz'"):
        checkpoints.read_leader_epochs(path)


@pytest.mark.parametrize("read", [checkpoints.read_leader_epochs, checkpoints.read_offsets])
def test_an_empty_checkpoint_holds_nothing_and_an_absent_one_is_an_error(
    read: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint"
    with pytest.raises(StorageError) as caught:
        read(path)
    assert caught.value.errno == errno.ENOENT
    path.touch()
    assert not read(path)
    path.write_bytes(b"0\n0\n")
    assert not read(path)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"0\n", "line 1: version and count expected"),
        (b"1\n0\n", "line 1: version: 1 is outside 0 to 0"),
        (b"zero\n0\n", "line 1: version: 'zero' is not a decimal number"),
        (b"0\n1_0\n", "line 2: count: '1_0' is not"),
        (b"0\n2\n0 0\n", "line 2: 2 entries announced, 1 found"),
        (b"0\n1\n0 0\n1 5\n", "line 2: 1 entries announced, 2 found"),
        (b"0\n1\n0 12", "line 3: the line is not ended"),
        (b"0\n1\n0\n", "line 3: 2 fields expected: '0'"),
        (b"0\n1\n0 0 0\n", "line 3: 2 fields expected"),
        (b"0\n2\n1 0\n1 5\n", "line 4: 1 5 does not follow on 1 0"),
        (b"0\n2\n0 5\n1 5\n", "line 4: 1 5 does not follow on 0 5"),
        (b"0\n1\n-1 5\n", "line 3: epoch: -1 is outside"),
        (b"0\n1\n2147483648 5\n", "line 3: epoch: 2147483648 is outside"),
        (b"0\n1\n0 9223372036854775808\n", "line 3: start offset: 9223372036854775808 is outside"),
        (b"0\n1\n0 " + "\u0665".encode() + b"\n", "line 3: start offset: '\u0665' is not"),
        (b"0\n1\n\xff 5\n", "line 3: not utf-8"),
        (b"\x00" * 40, "line 1: the line is not ended"),
    ],
)
def test_malformed_leader_epochs_name_the_line(data: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match=what) as caught:
        checkpoints.read_leader_epochs(path)
    assert str(caught.value).startswith(f"{path}: line ")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"0\n2\nt 0 5\nt 0 6\n", "line 4: t 0 occurs a second time"),
        (b"0\n1\nt -1 5\n", "line 3: partition: -1 is outside"),
        (b"0\n1\nt 0 -5\n", "line 3: offset: -5 is outside"),
        (b"0\n1\nt 0\n", "line 3: 3 fields expected"),
    ],
)
def test_malformed_offsets_name_the_line(data: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match=what):
        checkpoints.read_offsets(path)


def test_a_topic_that_would_break_its_line_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for topic in ("", "a b", "a\n"):
        with pytest.raises(InvalidArgumentError, match="topic"):
            checkpoints.write_offsets(tmp_path / "checkpoint", {("good", 0): 1, (topic, 0): 1})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("data", [b"", bytes(43)])
def test_partition_metadata_that_a_power_loss_emptied_counts_as_missing(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "partition.metadata").write_bytes(data)
    assert checkpoints.read_partition_metadata(tmp_path) is None


def test_ids_may_be_padded_as_kafka_reads_them(tmp_path: Path) -> None:
    (tmp_path / "partition.metadata").write_bytes(b"version: 0\ntopic_id: uDU0nLiSSNq8y2zra2ZrFA==")
    topic_id = checkpoints.read_partition_metadata(tmp_path)
    assert topic_id == uuid.UUID(bytes=base64.urlsafe_b64decode("uDU0nLiSSNq8y2zra2ZrFA=="))
    (tmp_path / "meta.properties").write_bytes(
        b"version=1\nnode.id=1\ncluster.id=x\ndirectory.id=uDU0nLiSSNq8y2zra2ZrFA\\=\\=\n")
    found = checkpoints.read_meta_properties(tmp_path)
    assert found is not None
    assert found.directory_id == topic_id


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"version: 0", "version and topic_id expected"),
        (b"version: 0\ntopic_id: uDU0nLiSSNq8y2zra2ZrFA=", "line 2: topic_id: .* is not an id"),
        (b"version: 1\ntopic_id: uDU0nLiSSNq8y2zra2ZrFA", "line 1: version: 1 is outside"),
        (b"topic_id: uDU0nLiSSNq8y2zra2ZrFA\nversion: x", "line 2: version: 'x' is not"),
        (b"version: 0\nversion: 0", "line 2: `version: 0` or"),
        (b"version: 0\nid: 5", "line 2: `version: 0` or"),
        (b"version: 0\ntopic_id: uDU0nLiSSNq8y2zra2ZrF", "line 2: topic_id: 'uDU0nLiSSNq8y2zra2ZrF' is not an id"),
        (b"version: 0\ntopic_id: uDU0nLiSSNq8y2zra2ZrF?", "line 2: topic_id: .* is not an id"),
        (b"version: 0\ntopic_id: uDU0nLiSSNq8y2zra2ZrFB", "line 2: topic_id: .* is not an id"),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "line 2: topic_id: the zero id"),
    ],
)
def test_malformed_partition_metadata_names_the_line(data: bytes, what: str, tmp_path: Path) -> None:
    assert checkpoints.read_partition_metadata(tmp_path) is None
    (tmp_path / "partition.metadata").write_bytes(data)
    with pytest.raises(CorruptFileError, match=what):
        checkpoints.read_partition_metadata(tmp_path)
    with pytest.raises(InvalidArgumentError, match="zero id"):
        checkpoints.write_partition_metadata(tmp_path, uuid.UUID(int=0))


# Result of java.util.Properties for these bytes, by its documentation.
JAVA_PROPERTIES: list[tuple[bytes, dict[str, str]]] = [
    (b"a=b", {"a": "b"}),
    (b"a = b \n", {"a": "b "}),
    (b"a:b\nc d\ne", {"a": "b", "c": "d", "e": ""}),
    (b"  a\t \t=\t b=c", {"a": "b=c"}),
    (b"a==b\nc= :d", {"a": "=b", "c": ":d"}),
    (b"# x=1\n ! y=2\n\n \t\nz=3", {"z": "3"}),
    (b"a=b\\\n   c\\\r\n\td\re=f", {"a": "bcd", "e": "f"}),
    (b"a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
    (b"a=b\\\n# not a comment\n", {"a": "b# not a comment"}),
    (b"# comment \\\na=b", {"a": "b"}),
    (b"a\\ b\\:c\\=d = e", {"a b:c=d": "e"}),
    (b"a=\\t\\n\\r\\f\\q\\\\\\ x", {"a": "\t\n\r\fq\\ x"}),
    (b"a=\\u00e9\\u20AC\\ud83d\\ude00", {"a": "\u00e9\u20ac\U0001f600"}),
    (b"a=\xe9", {"a": "\u00e9"}),
    (b"a=1\na=2", {"a": "2"}),
    (b"=b", {"": "b"}),
    (b"a=b\\", {"a": "b"}),
    (b"a=b\\\n\n\nc=d", {"a": "b", "c": "d"}),
    (b"", {}),
]


@pytest.mark.parametrize(("data", "expected"), JAVA_PROPERTIES, ids=[repr(data) for data, _ in JAVA_PROPERTIES])
def test_properties_read_as_java_reads_them(data: bytes, expected: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "x.properties"
    path.write_bytes(data)
    assert checkpoints.read_properties(path) == expected


def test_a_malformed_escape_in_properties_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "x.properties"
    path.write_bytes(b"# c\nok=1\nbad=\\u12g4\n")
    with pytest.raises(CorruptFileError, match=r"line 3: malformed escape \\u12g4"):
        checkpoints.read_properties(path)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(list(" \t\f\n\r\\=:#!")))


@given(st.dictionaries(TEXTS, TEXTS))
def test_properties_survive_a_round_trip_in_order(properties: dict[str, str]) -> None:
    path = Path(tempfile.mkdtemp()) / "x.properties"
    try:
        checkpoints.write_properties(path, properties)
        assert list(checkpoints.read_properties(path).items()) == list(properties.items())
        assert set(path.read_bytes()) <= set(string.printable.encode())
    finally:
        shutil.rmtree(path.parent)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"version=2\n", "line 1: version: 2 is outside 0 to 1"),
        (b"#\nversion=1\nnode.id=1", "cluster.id is missing"),
        (b"version=1\ncluster.id=x", "node.id is missing"),
        (b"version=1\ncluster.id=x\nnode.id=-1", "line 3: node.id: -1 is outside"),
        (b"version=1\ncluster.id=x\nnode.id=1\ndirectory.id=short", "line 4: directory.id: 'short' is not an id"),
    ],
)
def test_malformed_meta_properties_name_the_line(data: bytes, what: str, tmp_path: Path) -> None:
    assert checkpoints.read_meta_properties(tmp_path) is None
    (tmp_path / "meta.properties").write_bytes(data)
    with pytest.raises(CorruptFileError, match=what):
        checkpoints.read_meta_properties(tmp_path)


def test_meta_properties_of_version_0(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(b"broker.id=3\n")
    properties = checkpoints.read_meta_properties(tmp_path)
    assert properties == MetaProperties(3, None, version=0)
    assert properties != MetaProperties(4, None, version=0)
    checkpoints.write_meta_properties(tmp_path, MetaProperties(3, "c d", version=0))
    assert (tmp_path / "meta.properties").read_bytes() == b"version=0\nbroker.id=3\ncluster.id=c d\n"
    for wrong in ({"node_id": None, "cluster_id": "c"}, {"node_id": -1, "cluster_id": "c"},
                  {"node_id": 1, "cluster_id": "c", "version": 2}):
        with pytest.raises(InvalidArgumentError):
            MetaProperties(**wrong)


def test_the_mark_of_a_clean_stop(tmp_path: Path) -> None:
    assert checkpoints.read_clean_shutdown(tmp_path) is None
    path = tmp_path / ".kafka_cleanshutdown"
    path.touch()
    assert checkpoints.read_clean_shutdown(tmp_path) == -1
    path.write_bytes(b'{"brokerEpoch":9,"version":0,"later":true}')
    assert checkpoints.read_clean_shutdown(tmp_path) == 9
    for wrong in (b"{", b"[]", b"\xff", b'{"brokerEpoch":9}', b'{"version":0,"brokerEpoch":"9"}',
                  b'{"version":0,"brokerEpoch":-2}'):
        path.write_bytes(wrong)
        with pytest.raises(CorruptFileError, match="kafka_cleanshutdown: "):
            checkpoints.read_clean_shutdown(tmp_path)


STATES = st.builds(
    lambda start, point, beyond, clean, extra: LogState(
        start, point, max(start, point) + beyond if clean else -1, clean, extra),
    st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 2**62), st.booleans(),
    st.dictionaries(st.from_regex("x[a-z0-9_]{0,9}", fullmatch=True), st.text(string.printable[:95], max_size=20),
                    max_size=3),
)


@given(STATES)
def test_log_states_survive_a_round_trip(state: LogState) -> None:
    directory = Path(tempfile.mkdtemp())
    try:
        checkpoints.write_log_state(directory, state)
        assert checkpoints.read_log_state(directory) == state
    finally:
        shutil.rmtree(directory)


def test_no_changed_byte_and_no_shorter_log_state_is_believed(tmp_path: Path) -> None:
    assert checkpoints.read_log_state(tmp_path) is None
    checkpoints.write_log_state(tmp_path, LogState(5, 100, 2000, True, {"note": "a b"}))
    path = tmp_path / "kraft-log-state"
    good = path.read_bytes()
    assert good.startswith(b"kraft-log-state 1\nlog_start=5\nrecovery_point=100\nlog_end=2000\nclean=1\nnote=a b\ncrc=")
    for size in range(len(good)):
        path.write_bytes(good[:size])
        with pytest.raises(CorruptFileError, match="kraft-log-state: line"):
            checkpoints.read_log_state(tmp_path)
    for at in range(len(good)):
        for bit in range(8):
            path.write_bytes(good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :])
            with pytest.raises(CorruptFileError, match="kraft-log-state: line"):
                checkpoints.read_log_state(tmp_path)
    path.write_bytes(good + b"x=1\n")
    with pytest.raises(CorruptFileError):
        checkpoints.read_log_state(tmp_path)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (["kraft-log-state 2"], "line 1: `kraft-log-state 1` expected"),
        (["kraft-log-state 1", "log_start=0"], "recovery_point is missing"),
        (["kraft-log-state 1", "log_start"], "line 2: `key=value` with a new key"),
        (["kraft-log-state 1", "log_start=1", "log_start=1"], "line 3: `key=value` with a new key"),
        (["kraft-log-state 1", "log_start=x"], "line 2: log_start: 'x' is not"),
        (["kraft-log-state 1", "log_start=9", "recovery_point=0", "log_end=8", "clean=1"], "log_end: 8 is below"),
        (["kraft-log-state 1", "log_start=9", "recovery_point=0", "log_end=-1", "clean=2"], "line 5: clean: 2"),
        (["kraft-log-state 1", "log_start=9", "recovery_point=0", "log_end=-1", "clean=0", "X=1"], "extra: 'X'"),
    ],
)
def test_a_log_state_that_contradicts_itself_is_refused(lines: list[str], what: str, tmp_path: Path) -> None:
    body = "".join(f"{line}\n" for line in lines).encode()
    (tmp_path / "kraft-log-state").write_bytes(body + b"crc=%08x\n" % checksum(body))
    with pytest.raises(CorruptFileError, match=what):
        checkpoints.read_log_state(tmp_path)


def test_impossible_log_states_are_refused() -> None:
    for numbers in ((-1, 0), (0, -1), (0, 0, 5, False), (0, 0, -1, True), (7, 0, 6, True), (0, 7, 6, True)):
        with pytest.raises(InvalidArgumentError):
            LogState(*numbers)
    for extra in ({"crc": "1"}, {"A": "1"}, {"a": "x\n"}, {"a": "\u00e9"}, {"log_end": "4"}):
        with pytest.raises(InvalidArgumentError, match="extra"):
            LogState(0, 0, extra=extra)
    state = LogState(1, 2, extra={"a": "b"})
    assert repr(state) == "LogState(log_start=1, recovery_point=2, log_end=-1, clean=False, extra={'a': 'b'})"
    assert state != LogState(1, 2)


def test_a_failing_write_leaves_the_old_file(tmp_path: Path) -> None:
    old, new = LogState(1, 2), LogState(3, 4, 5, True)
    with count_operations(under=tmp_path) as count:
        checkpoints.write_log_state(tmp_path, old)
    for k in range(1, count.seen + 1):
        checkpoints.write_log_state(tmp_path, old)
        with fail_at(k, error=errno.EIO, under=tmp_path) as plan, pytest.raises(StorageError):
            checkpoints.write_log_state(tmp_path, new)
        assert plan.fired == 1
        renamed = k == count.seen  # only the directory's flush comes after the rename
        assert checkpoints.read_log_state(tmp_path) == (new if renamed else old)


def test_checkpoints_that_logs_share_are_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    read = checkpoints.read_offsets
    monkeypatch.setattr(checkpoints, "read_offsets", lambda path: (parsed.append(path), read(path))[1])
    path = tmp_path / "replication-offset-checkpoint"
    shared = checkpoints.SharedOffsets()
    assert shared.read(tmp_path / "missing") is None
    checkpoints.write_offsets(path, {("t", 0): 7})
    assert [shared.read(path), shared.read(str(path))] == [{("t", 0): 7}] * 2
    assert parsed == [str(path)]
    checkpoints.write_offsets(path, {("t", 0): 8})
    assert shared.read(path) == {("t", 0): 7}
    assert checkpoints.SharedOffsets().read(path) == {("t", 0): 8}
    path.write_text("0\n1\n")
    with pytest.raises(CorruptFileError):
        checkpoints.SharedOffsets().read(path)
