"""Opening a log after anything happened to it: which marks are trusted, and what is cut, kept, rebuilt, finished and
reported."""

import os
import shutil
from pathlib import Path

import pytest

from kraft_native.base.errors import CorruptLogError
from kraft_native.batch.batch import LEADER_EPOCH_AT
from kraft_native.facade.log import Log
from kraft_native.segment.checkpoints import read_leader_epochs, read_log_state, write_log_state, write_offsets
from kraft_native.segment.producer_snapshots import list_snapshots
from tests.native.logs import batch
from tests.native.recovery_logs import (
    ROUNDS,
    answers,
    as_served,
    bases,
    config,
    flip,
    killed,
    original,
    rewrite,
    right_answers,
    segments,
    template,
)
from tests.native.unclean_cases import serve
from tests.oracle.damage import Found, read_log


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Copy the log, in a directory above that holds nothing else."""
    return Path(shutil.copytree(template(), tmp_path / "above" / "log-0"))


# --- which marks are trusted ------------------------------------------------------------------------------------------

def test_after_a_clean_stop_nothing_is_scanned(directory):
    with Log(directory, config()) as log:
        report = log.recovery
        assert report.clean
        assert report.intact
        assert (report.marks_from, report.segments_scanned, report.bytes_scanned) == ("state", 0, 0)
        assert (report.log_start_offset, report.log_end_offset) == (0, log.log_end_offset)
        assert report.segments == len(log.segments)
        assert as_served(serve(log).batches) == as_served(original())


def test_after_a_crash_only_what_lies_past_the_recovery_point_is_scanned(tmp_path):
    directory = killed(tmp_path)
    point = read_log_state(directory).recovery_point
    assert point > 0
    scanned = [path for path in segments(directory) if int(path.stem) >= point]
    assert 0 < len(scanned) < len(segments(directory))
    flip(segments(directory)[0], 100)                  # below: not read before a fetch reads it
    with Log(directory, config()) as log:
        assert not log.recovery.clean
        assert log.recovery.recovery_point == point
        assert log.recovery.segments_scanned == len(scanned)
        assert log.recovery.damage == []
        with pytest.raises(CorruptLogError):
            log.read(0)
        assert log.recovery.cut_bytes > 0                          # the window in which small appends are written
    with Log(directory, config()) as log:
        assert log.recovery.clean


def test_a_second_crash_need_not_scan_the_same_again(tmp_path):
    directory = killed(tmp_path)
    with Log(directory, config()):
        again = shutil.copytree(directory, tmp_path / "again-0")
    with Log(again, config()) as log:
        assert log.recovery.segments_scanned == 1


def test_an_opening_that_finds_what_was_noted_writes_no_file(tmp_path):
    directory = killed(tmp_path)
    with Log(directory, config()) as log:
        log.begin_epoch(99)
        again = Path(shutil.copytree(directory, tmp_path / "again-0"))
    noted = {name: (again / name).stat() for name in ("kraft-log-state", "leader-epoch-checkpoint")}
    with Log(again, config()) as log:
        assert not log.recovery.clean
        end, epochs = log.log_end_offset, log.epochs.entries()
        assert log.apply_retention(0) == 0
        log.begin_checkpoint()
        assert {name: (again / name).stat() for name in noted} == noted
        log.append(batch(1), leader_epoch=99)
        assert log.epochs.entries() == [*epochs, (99, end)]
    with Log(again, config()) as log:
        assert log.log_end_offset == end + 1
        assert log.epochs.entries() == [*epochs, (99, end)]


@pytest.mark.parametrize("durability", ["group-commit", "per-append"])
def test_a_log_that_promises_the_disk_is_durable_after_an_opening(tmp_path, durability):
    directory = killed(tmp_path, durability=durability)
    with Log(directory, config(durability=durability)):
        again = Path(shutil.copytree(directory, tmp_path / "again-0"))
    with Log(again, config(durability=durability)) as log:
        assert log.recovery_point == log.log_end_offset


def kafka_marks(above: Path, points: dict, starts: dict, *, clean: bool, age_s: float) -> None:
    """Write Kafka's checkpoints, `age_s` seconds older than the log's own state (negative: younger)."""
    write_offsets(above / "recovery-point-offset-checkpoint", points)
    write_offsets(above / "log-start-offset-checkpoint", starts)
    if clean:
        (above / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":5}')
    for state in above.glob("*/kraft-log-state"):
        written = state.stat().st_mtime - age_s
        os.utime(above / "recovery-point-offset-checkpoint", (written, written))


def test_the_younger_marks_win(directory):
    above, end = directory.parent, original()[-1].last_offset + 1
    kafka_marks(above, {("log", 0): 5}, {("log", 0): 4}, clean=False, age_s=60)
    with Log(directory, config()) as log:
        assert (log.recovery.marks_from, log.recovery.recovery_point) == ("state", end)
        assert log.recovery.clean
        assert log.log_start_offset == 4, "a log start only moves up"
    kafka_marks(above, {("log", 0): 5}, {("log", 0): 6}, clean=False, age_s=-60)
    with Log(directory, config()) as log:
        assert (log.recovery.marks_from, log.recovery.recovery_point) == ("kafka", 5)
        assert log.recovery.segments_scanned == len(log.segments)
        assert log.log_start_offset == 6


def test_marks_that_name_other_partitions_say_nothing(directory):
    kafka_marks(directory.parent, {("log", 1): 5}, {}, clean=True, age_s=-60)
    with Log(directory, config()) as log:
        assert log.recovery.marks_from == "state"


def test_checkpoints_from_the_caller_count_like_kafkas_own_files(directory):
    with Log(directory, config(), recovery_point=3, log_start_offset=2) as log:
        assert log.recovery.marks_from == "state"
        assert log.log_start_offset == 2
    (directory / "kraft-log-state").unlink()
    with Log(directory, config(), recovery_point=3, log_start_offset=2) as log:
        assert (log.recovery.marks_from, log.recovery.recovery_point) == ("given", 3)
        assert log.log_start_offset == 2


def test_a_clean_stop_is_not_believed_when_somebody_wrote_since(directory):
    end = original()[-1].last_offset + 1
    with segments(directory)[-1].open("ab") as file:
        file.write(batch(2, base_offset=end, leader_epoch=1))
    with Log(directory, config()) as log:
        assert not log.recovery.clean
        assert log.log_end_offset == end + 2
        assert serve(log).refused == []


def test_kafkas_mark_of_a_clean_stop_goes_with_the_first_change(directory):
    (directory / "kraft-log-state").unlink()
    end = original()[-1].last_offset + 1
    kafka_marks(directory.parent, {("log", 0): end}, {}, clean=True, age_s=0)
    mark = directory.parent / ".kafka_cleanshutdown"
    with Log(directory, config()) as log:
        assert log.recovery.clean
        serve(log)
        assert mark.exists()
        log.append(batch())
        assert not mark.exists()


@pytest.mark.parametrize("name", ["kraft-log-state", "../recovery-point-offset-checkpoint",
                                  "../log-start-offset-checkpoint", "../.kafka_cleanshutdown"])
def test_marks_that_cannot_be_read_are_reported_and_replaced_by_a_scan(directory, name):
    kafka_marks(directory.parent, {("log", 0): 40}, {("log", 0): 0}, clean=True, age_s=-60)
    (directory / name).write_bytes(b"\xffnot this")
    os.utime(directory / name, (2e9, 2e9))
    with Log(directory, config()) as log:
        assert any(Path(found.path).name == Path(name).name for found in log.recovery.ignored)
        assert as_served(serve(log).batches) == as_served(original())


# --- torn ends and losses ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("tail", [b"\0" * 700, b"\x5a" * 90, batch(2)[:-1], b"\x01"],
                         ids=["zeros", "garbage", "cut", "one byte"])
def test_a_torn_end_is_cut_before_anything_is_appended(tmp_path, tail):
    directory = killed(tmp_path)
    path = segments(directory)[-1]
    sound = read_log(directory)
    whole = max((found.end for found in sound if found.base_offset >= int(path.stem)), default=0)
    path.write_bytes(path.read_bytes()[:whole] + tail)
    with Log(directory, config()) as log:
        assert path.stat().st_size == whole
        assert log.recovery.cut_bytes == len(tail)
        cut, = log.recovery.cut
        assert (cut.path, cut.position, cut.size_bytes) == (str(path), whole, len(tail))
        assert log.recovery.intact
        assert log.append(batch()).first_offset == sound[-1].last_offset + 1
        assert as_served(serve(log).batches)[:-1] == as_served(sound)


@pytest.mark.parametrize("lost_bytes", [1, 61, 200])
def test_lost_durable_records_stay_reported_and_their_offsets_unused(directory, lost_bytes):
    path, before = segments(directory)[-1], original()
    rewrite(path, lambda data: data[:-lost_bytes])
    left = read_log(directory)
    end = before[-1].last_offset + 1
    assert len(left) < len(before)
    with Log(directory, config()) as log:
        lost, = log.recovery.lost_ranges
        assert (lost.offset, lost.next_offset) == (left[-1].last_offset + 1, end)
        assert log.recovery.cut == []
        assert log.log_end_offset == end
        for offset in (lost.offset, end - 1):
            with pytest.raises(CorruptLogError) as caught:
                log.read(offset, isolation="log_end")
            assert (caught.value.offset, caught.value.next_offset) == (offset, end)
        assert log.append(batch()).first_offset == end
    with Log(directory, config()) as log:
        assert log.recovery.clean
        assert as_served(serve(log).batches)[:-1] == as_served(left)
        assert [(error.offset, error.next_offset) for error in serve(log).refused] == [tuple(lost)]


def test_a_log_cut_at_what_is_lost_is_whole_again(directory):
    """A follower cuts there, and its leader sends the rest."""
    path, before = segments(directory)[-1], original()
    with Log(directory, config()) as log:
        assert log.first_lost_offset is None
    rewrite(path, lambda data: data[:-1])
    left = read_log(directory)
    with Log(directory, config()) as log:
        lost = log.first_lost_offset
        assert lost == left[-1].last_offset + 1 < before[-1].last_offset + 1 == log.log_end_offset
        assert log.truncate_to(lost)
        assert (log.first_lost_offset, log.log_end_offset) == (None, lost)
        assert log.append(batch()).first_offset == lost
    with Log(directory, config()) as log:
        assert log.first_lost_offset is None
        assert serve(log).refused == []


def test_a_missing_active_segment(directory):
    path, before = segments(directory)[-1], original()
    path.unlink()
    left = read_log(directory)
    with Log(directory, config()) as log:
        assert [tuple(lost) for lost in log.recovery.lost_ranges] == [(int(path.stem), before[-1].last_offset + 1)]
        assert log.log_end_offset == before[-1].last_offset + 1
        assert as_served(serve(log).batches) == as_served(left)


def test_all_segments_are_missing(directory):
    for path in segments(directory):
        path.unlink()
    end = original()[-1].last_offset + 1
    with Log(directory, config()) as log:
        assert (log.log_start_offset, log.log_end_offset) == (0, end)
        assert [tuple(lost) for lost in log.recovery.lost_ranges] == [(0, end)]
        assert serve(log).batches == []
        assert log.append(batch()).first_offset == end


@pytest.mark.parametrize("number", [0, 1])
def test_a_gap_is_a_loss_unless_compaction_may_have_made_it(directory, number):
    first, end = (int(path.stem) for path in segments(directory)[number:number + 2])
    segments(directory)[number].unlink()
    left = read_log(directory)
    for policy in ("delete", "compact"):       # our state says that nothing was compacted yet
        with Log(shutil.copytree(directory, directory.parent / policy), config(cleanup_policy=policy)) as log:
            assert log.log_start_offset == 0
            served = serve(log)
            assert as_served(served.batches) == as_served(left)
            assert [(error.offset, error.next_offset) for error in served.refused] == [(first, end)]
    (directory / "kraft-log-state").unlink()
    with Log(directory, config(cleanup_policy="compact")) as log:
        served = serve(log)
        assert as_served(served.batches) == as_served(left)
        assert served.refused == []


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_losses_are_remembered(directory, policy):
    """Only the note reports them at the next open where gaps are legal."""
    path, end = segments(directory)[-1], original()[-1].last_offset + 1
    path.unlink()
    lost = (int(path.stem), end)
    for turn in range(3):
        with Log(directory, config(cleanup_policy=policy)) as log:
            assert [tuple(found) for found in log.recovery.lost_ranges] == [lost]
            assert [(error.offset, error.next_offset) for error in serve(log).refused] == [lost]
            assert log.append(batch()).first_offset == end + turn
    with Log(directory, config(cleanup_policy=policy)) as log:
        log.truncate_to(lost[0])       # as a log does whose lost records are fetched again from elsewhere
        log.append(batch(2))
    with Log(directory, config(cleanup_policy=policy)) as log:
        assert log.recovery.intact
        assert serve(log).refused == []


def test_a_log_start_past_the_log_end(directory):
    state = read_log_state(directory)
    write_log_state(directory, type(state)(state.log_end + 50, 0))
    with Log(directory, config()) as log:
        assert (log.log_start_offset, log.log_end_offset) == (state.log_end + 50, state.log_end + 50)
        assert log.recovery.intact
        assert log.append(batch()).first_offset == state.log_end + 50


def test_damage_in_the_active_segment_is_kept_in_a_segment_of_its_own(tmp_path):
    directory = killed(tmp_path)
    path = segments(directory)[-1]
    active = [found for found in read_log(directory) if found.base_offset >= int(path.stem)]
    flip(path, active[1].position + 30)
    content = path.read_bytes()[:active[-1].end]
    with Log(directory, config()) as log:
        damage, = log.recovery.damage
        assert (damage.path, damage.position, damage.end_position) == (str(path), active[1].position, active[1].end)
        assert (damage.offset, damage.next_offset) == (active[1].base_offset, active[2].base_offset)
        assert log.append(batch()).first_offset == active[-1].last_offset + 1
        assert path.read_bytes()[:len(content)] == content, "damage is kept as it is"
        assert bases(log)[-2:] == [int(path.stem), active[-1].last_offset + 1]
        found = serve(log)
        assert [(error.offset, error.next_offset) for error in found.refused] == [tuple(damage)[3:5]]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_log_that_ends_at_damage_keeps_all_before_it_and_nothing_behind(tmp_path, share, is_lost):
    """Mode `crash_damage="cut"`: this also holds where later segments are sound, which reached the disk first."""
    directory = killed(tmp_path)
    durable_end = int(read_log_state(directory).extra["durable_end"])
    found = read_log(directory)
    late = [each for each in found if each.base_offset >= durable_end]
    assert len(late) > 8
    torn = late[int(share * len(late))]
    path = [path for path in segments(directory) if int(path.stem) <= torn.base_offset][-1]
    if is_lost:
        data = bytearray(path.read_bytes())
        data[torn.position:torn.end] = bytes(len(torn.data))
        path.write_bytes(data)
    else:
        flip(path, torn.position + 30)
    for _ in range(2):
        with Log(directory, config(crash_damage="cut")) as log:
            assert log.log_end_offset == torn.base_offset
            assert log.recovery.intact
            assert [each.base_offset for each in read_log(directory)] == [
                each.base_offset for each in found if each.base_offset < torn.base_offset]
            assert serve(log).refused == []
    with Log(directory, config(crash_damage="cut")) as log:
        assert log.append(batch()).first_offset == torn.base_offset


def test_a_log_that_ends_at_damage_ends_where_a_segment_lost_its_end(tmp_path):
    """The file is shorter, by whole batches, and the segment behind it is sound."""
    directory = killed(tmp_path)
    path = segments(directory)[-2]
    found = [each for each in read_log(directory) if each.base_offset < int(segments(directory)[-1].stem)]
    durable_end = int(read_log_state(directory).extra["durable_end"])
    assert found[-1].base_offset >= durable_end
    os.truncate(path, found[-1].position)
    with Log(directory, config(crash_damage="cut")) as log:
        assert log.log_end_offset == found[-1].base_offset
        assert log.recovery.intact
        assert segments(directory)[-1] == path
        assert log.append(batch()).first_offset == found[-1].base_offset


def test_damage_to_what_was_durable_is_never_cut(tmp_path):
    directory = killed(tmp_path)
    found = read_log(directory)
    durable_end = int(read_log_state(directory).extra["durable_end"])
    hit = [each for each in found if each.base_offset < durable_end][-2]
    flip([path for path in segments(directory) if int(path.stem) <= hit.base_offset][-1], hit.position + 30)
    with Log(directory, config(crash_damage="cut")) as log:
        assert log.log_end_offset == found[-1].last_offset + 1
        assert [damage.offset for damage in log.recovery.damage] == [hit.base_offset]


# --- bytes that the checksum does not cover ---------------------------------------------------------------------------

@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("mask", [1, 0x80])
def test_a_base_offset_that_changed_is_never_believed(directory, policy, mask):
    """The base offset lies outside the CRC. Each batch of the log, lowest byte of its base offset."""
    before = original()
    for number, found in enumerate(before):
        path = max((path for path in segments(directory) if int(path.stem) <= found.base_offset), key=str)
        flip(path, found.position + 7, mask)
        copied = Path(shutil.copytree(directory, directory.parent / "try-0"))
        with Log(copied, config(cleanup_policy=policy)) as log:
            served = as_served(serve(log).batches)
            assert served == as_served(before[:number] + before[number + 1:]), number
        shutil.rmtree(copied)
        flip(path, found.position + 7, mask)


@pytest.mark.parametrize(("position", "mask"), [(0, 1), (1, 0x40), (3, 0xFF), (6, 8), (7, 1), (7, 0x80)])
def test_the_last_base_offset_that_changed_when_nobody_knows_the_end(tmp_path, position, mask):
    directory = killed(tmp_path)
    (directory / "kraft-log-state").unlink()
    before = read_log(directory)
    flip(segments(directory)[-1], before[-1].position + position, mask)
    with Log(directory, config()) as log:
        assert as_served(serve(log).batches) == as_served(before[:-1])
        assert log.log_end_offset == before[-1].base_offset


def test_a_leader_epoch_that_changed_does_not_become_an_epoch(directory):
    found = original()[4]
    flip(segments(directory)[0], found.position + LEADER_EPOCH_AT, 0x40)
    (directory / "leader-epoch-checkpoint").unlink()
    with Log(directory, config()) as log:
        assert log.epochs.entries() == read_leader_epochs(template() / "leader-epoch-checkpoint")


def test_a_payload_that_holds_batches_is_not_taken_for_the_log(tmp_path):
    inner = batch(2, base_offset=2, leader_epoch=0)
    with Log(tmp_path / "log-0", config()) as log:
        for _ in range(2):
            log.append(batch(2, value=inner))
        log.append(batch(2))
    path, = segments(tmp_path / "log-0")
    found = read_log(tmp_path / "log-0")
    flip(path, found[0].end + 70)
    with Log(tmp_path / "log-0", config()) as log:
        assert as_served(serve(log).batches) == as_served([found[0], found[2]])


# --- indexes ----------------------------------------------------------------------------------------------------------

def zeroed(data: bytearray) -> bytes:
    return bytes(len(data))


def longer(data: bytearray) -> bytes:
    return bytes(data) + b"\x7f" * 24


def shorter(entry_bytes: int):
    return lambda data: data[:len(data) // 2 // entry_bytes * entry_bytes]


def raised(entry_bytes: int, at: int):
    """Return the content with one added to the last byte of a field in every entry: still in order, and wrong."""
    def change(data: bytearray) -> bytearray:
        for entry in range(0, len(data), entry_bytes):
            data[entry + at] = (data[entry + at] + 1) % 256
        return data
    return change


@pytest.mark.parametrize(("suffix", "change"), [
    *[(suffix, change) for suffix in (".index", ".timeindex", ".txnindex")
      for change in (None, zeroed, longer, lambda data: data[:-1], lambda data: b"", lambda data: data[::-1],
                     lambda data: os.urandom(len(data) or 24))],
    (".index", shorter(8)), (".timeindex", shorter(12)), (".txnindex", shorter(34)),
    (".index", raised(8, 3)), (".index", raised(8, 7)), (".timeindex", raised(12, 7)), (".timeindex", raised(12, 11)),
    (".txnindex", raised(34, 9)), (".txnindex", raised(34, 17)), (".txnindex", raised(34, 25)),
])
@pytest.mark.parametrize("which", ["all", "first"])
def test_an_index_that_is_wrong_never_makes_a_wrong_answer(directory, suffix, change, which):
    paths = sorted(directory.glob(f"*{suffix}"))
    for path in paths if which == "all" else paths[:1]:
        if change is None:
            path.unlink()
        else:
            rewrite(path, change)
    with Log(directory, config()) as log:
        assert answers(log) == right_answers()
        assert log.recovery.intact


def test_transaction_indexes_are_not_looked_at_where_there_are_no_transactions(tmp_path):
    with Log(tmp_path / "log-0", config()) as log:
        for _ in range(40):
            log.append(batch(3))
    with Log(tmp_path / "log-0", config()) as log:
        assert log.aborted_transactions(0, 3) == []
        assert [segment.verified_to for segment in log.segments[1:-1]] == [0] * (len(log.segments) - 2)


# --- other files ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("content", [None, b"", b"0\n9\n0 0\n", b"\xff\xfe", b"0\n1\n0\n", b"7\n0\n"])
def test_leader_epochs_are_rebuilt(directory, content):
    path = directory / "leader-epoch-checkpoint"
    before = read_leader_epochs(path)
    assert len(before) == 2
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with Log(directory, config()) as log:
        assert log.epochs.entries() == before
        assert log.recovery.rebuilt == [str(path)]
    assert read_leader_epochs(path) == before


@pytest.mark.parametrize("change", [None, zeroed, longer, lambda data: data[:-1], lambda data: b""])
@pytest.mark.parametrize("count", [1, 2, 99])
def test_producer_snapshots_are_replaced_by_older_ones_and_the_log(directory, change, count):
    for offset in list_snapshots(directory)[-count:]:
        path = directory / f"{offset:020d}.snapshot"
        if change is None:
            path.unlink()
        else:
            rewrite(path, change)
    with Log(directory, config()) as log:
        again = batch(2, producer_id=7, producer_epoch=0, base_sequence=2 * ROUNDS - 2, transactional=True)
        assert log.append(again).duplicate
        assert len(log.recovery.ignored) == (0 if change is None else min(count, len(log.segments)))
        assert log.last_stable_offset == log.high_watermark


def test_leftovers_go_and_unknown_names_stay(directory):
    removed = ["00000000000000000000.log.deleted", "00000000000000000900.index.deleted", "leader-epoch-checkpoint.tmp",
            "00000000000000000000.log.cut", "00000000000000000000.log.cleaned", "00000000000000000000.index.cleaned",
            "00000000000000000005.log.swap"]
    stay = ["notes.txt", "00000000000000000007-0000000001.checkpoint.deleted", "12.log", "x.swap",
            "0000000000000000000a.log", "partition.metadata"]
    for name in removed + stay:
        (directory / name).write_bytes(b"anything")
    with Log(directory, config()) as log:
        assert sorted(log.recovery.removed) == sorted(removed)
        assert as_served(serve(log).batches) == as_served(original())
    left = set(os.listdir(directory))
    assert set(stay) <= left
    assert not set(removed) & left


def compacted(directory: Path) -> tuple[list[Found], int, list[Path]]:
    """Create a `.swap` set that replaces the second and third segment: every other batch of theirs."""
    sources = segments(directory)[1:3]
    base = int(sources[0].stem)
    end = int(segments(directory)[3].stem)
    inside = [found for found in original() if base <= found.base_offset < end]
    kept = [*inside[:-1:2], inside[-1]]
    (directory / f"{base:020d}.log.swap").write_bytes(b"".join(found.data for found in kept))
    (directory / f"{base:020d}.index.swap").write_bytes(b"")
    (directory / f"{base:020d}.timeindex.swap").write_bytes(b"")
    return [found for found in original() if found not in inside or found in kept], base, sources


@pytest.mark.parametrize("step", ["nothing", "one source", "all sources", "log renamed"])
def test_a_swap_that_began_is_finished(directory, step):
    wanted, base, sources = compacted(directory)
    if step != "nothing":
        for path in sources[:1] if step == "one source" else sources:
            path.unlink()
    if step == "log renamed":
        (directory / f"{base:020d}.log.swap").rename(directory / f"{base:020d}.log")
    with Log(directory, config(cleanup_policy="compact")) as log:
        assert as_served(serve(log).batches) == as_served(wanted)
        assert serve(log).refused == []
        assert int(sources[1].stem) not in bases(log)
    assert not list(directory.glob("*.swap"))


def test_a_swap_that_is_not_complete_is_dropped(directory):
    _, base, _ = compacted(directory)
    (directory / f"{base:020d}.log.swap").rename(directory / f"{base:020d}.log.cleaned")
    with Log(directory, config(cleanup_policy="compact")) as log:
        assert as_served(serve(log).batches) == as_served(original())
    assert not [name for name in os.listdir(directory) if name.endswith((".swap", ".cleaned"))]


def test_a_damaged_swap_does_not_replace_its_sources(directory):
    _, base, _ = compacted(directory)
    flip(directory / f"{base:020d}.log.swap", 80)
    with Log(directory, config(cleanup_policy="compact")) as log:
        assert as_served(serve(log).batches) == as_served(original())
