"""The real log as a subject of the kit, and the rules on which its parts must agree."""

from contextlib import suppress
from pathlib import Path
from random import Random

from kraft.crashes.disk import State
from kraft_native.base.errors import CorruptLogError, KraftError
from kraft_native.batch.batch import (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    OVERHEAD_BYTES,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
)
from kraft_native.facade.log import Log
from kraft_native.facade.reader import LogReader
from kraft_native.log.flusher import Flusher
from kraft_native.segment.config import LogConfig

from .promises import Batch, Gap, Observed
from .subject import View

SEGMENT_BYTES = 4_000
INDEX_INTERVAL_BYTES = 500
RETENTION_BYTES = 12_000
FLUSHED_EVERY = 3           # group commit: one in so many appends is followed by a flush
CONTROL, TRANSACTIONAL = 0x20, 0x10
WAIT_SECONDS = 30.0


def signed(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


class Header:
    """Fields of a stored batch that the audit needs."""

    def __init__(self, batch: Batch):
        data = batch.data
        self.base, self.last = batch.base, batch.last
        self.leader_epoch = signed(data[LEADER_EPOCH_AT:MAGIC_AT])
        attributes = signed(data[ATTRIBUTES_AT:LAST_OFFSET_DELTA_AT])
        self.transactional = bool(attributes & TRANSACTIONAL)
        self.control = bool(attributes & CONTROL)
        self.max_timestamp = signed(data[MAX_TIMESTAMP_AT:PRODUCER_ID_AT])
        self.producer_id = signed(data[PRODUCER_ID_AT:PRODUCER_EPOCH_AT])
        self.base_sequence = signed(data[BASE_SEQUENCE_AT:RECORD_COUNT_AT])
        # The key of a marker's one record ends with the type: 0 abort, 1 commit.
        self.aborts = self.control and data[HEADER_BYTES + 5 + 3] == 0


def observe(log: Log | LogReader, isolation: str, policy: str) -> Observed:
    """Return all that a log serves and all that it refuses."""
    start, end = int(log.log_start_offset), int(log.log_end_offset)
    seen = Observed(start, end, [])
    at = start
    while at < end:
        try:
            piece = log.read(at, 4_000, isolation=isolation)
        except CorruptLogError as error:
            next_offset = end if error.next_offset < 0 else error.next_offset
            if next_offset <= at:
                raise AssertionError(f"damage at {at} that ends at {next_offset}") from error
            seen.gaps.append(Gap(at, next_offset))
            at = next_offset
            continue
        batches = split(bytes(piece))
        if not batches and policy == "compact":
            break
        if not batches:
            raise AssertionError(f"a read at {at} gives nothing; the log ends at {end}")
        seen.batches += batches
        at = batches[-1].last + 1
    return seen


class ReaderView:
    """Reader in another process, of a log that no process has open."""

    def __init__(self, directory: Path, policy: str):
        self.policy = policy
        self.reader = LogReader(directory, cleanup_policy=policy)

    def observe(self) -> Observed:
        return observe(self.reader, "high_watermark", self.policy)

    def close(self) -> None:
        self.reader.close()


class EngineSession:
    """Log whose flusher works only while its owner waits for it, so that the same seed makes the same system calls in
    the same order.

    A flusher that works in its own time leaves no state that is impossible without it: it only makes submitted bytes
    durable earlier than promised. `append` waits now and then where other owners would continue, so that promises are
    given as often as with a busy flusher.
    """

    def __init__(self, directory: Path, durability: str, policy: str):
        self.durability = durability
        self.policy = policy
        self.flusher = Flusher(linger_us=None, bytes_trigger=1 << 62)
        try:
            self.log = Log(directory, LogConfig(
                cleanup_policy=policy, durability=durability, segment_bytes=SEGMENT_BYTES,
                index_interval_bytes=INDEX_INTERVAL_BYTES, retention_bytes=RETENTION_BYTES, retention_ms=-1,
                segment_ms=1 << 60, producer_id_expiration_ms=1 << 60,
            ), flusher=self.flusher)
        except BaseException:
            self.flusher.close()
            raise

    def stored(self, batch: bytes, offset: int) -> bytes:
        epoch = max(0, self.log.epochs.latest_epoch)
        head = offset.to_bytes(8, "big") + batch[LENGTH_AT:LEADER_EPOCH_AT] + epoch.to_bytes(4, "big")
        return head + batch[MAGIC_AT:]

    def append(self, batch: bytes) -> tuple[int, bytes]:
        stored = self.stored(batch, self.log.log_end_offset)
        is_control = signed(batch[ATTRIBUTES_AT:LAST_OFFSET_DELTA_AT]) & CONTROL
        info = self.log.append(batch, origin="coordinator" if is_control else "client")
        if info.duplicate:
            raise AssertionError("a first append was taken for a repeat")
        if self.durability == "group-commit" and batch[20] % FLUSHED_EVERY == 0:
            self.flush()
        return info.first_offset, stored

    def durable_end(self) -> int:
        return 0 if self.durability == "page-cache" else int(self.log.durable_end_offset)

    def wait_durable(self) -> None:
        if self.durability != "page-cache":
            self.flush()

    def flush(self) -> None:
        if not self.log.flush(WAIT_SECONDS):
            raise AssertionError("a flush did not come back")

    def truncate(self, offset: int) -> int:
        self.log.truncate_to(offset)
        return int(self.log.log_end_offset)

    def restart_at(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)

    def delete_records(self, offset: int) -> int:
        self.wait_durable()         # the high watermark, which limits this, follows what is durable
        return int(self.log.delete_records(offset))

    def apply_retention(self) -> int:
        self.wait_durable()
        self.log.apply_retention(1 << 50)
        return int(self.log.log_start_offset)

    def begin_epoch(self) -> None:
        self.log.begin_epoch(max(0, self.log.epochs.latest_epoch) + 1)

    def compact(self) -> list[Batch]:
        self.wait_durable()         # it stops at the last stable offset, which follows what is durable
        self.log.compact(1 << 42, force=True)
        return self.observe().batches

    def roll(self) -> None:
        self.log.roll()

    def checkpoint(self) -> None:
        self.log.checkpoint()

    # --- reading ----------------------------------------------------------------------------------------------------

    def observe(self) -> Observed:
        return observe(self.log, "log_end", self.policy)

    def close(self) -> None:
        try:
            self.log.close()
        finally:
            self.flusher.close()

    def abandon(self) -> None:
        with suppress(KraftError):
            self.close()

    # --- agreement of the parts -------------------------------------------------------------------------------------

    def audit(self) -> list[str]:
        seen = self.observe()
        headers = [Header(batch) for batch in seen.batches]
        broken = self.audit_lookups(seen, headers)
        if not seen.gaps:
            broken += self.audit_epochs(headers)
        if not seen.gaps and self.policy == "delete":
            broken += self.audit_transactions(seen, headers) + self.audit_producers(seen, headers)
        return broken

    def audit_lookups(self, seen: Observed, headers: list[Header]) -> list[str]:
        """Check look-ups by offset and by time, through the indexes."""
        broken = []
        random = Random(seen.end)
        for batch in random.sample(seen.batches, min(3, len(seen.batches))):
            offset = random.randint(max(batch.base, seen.start), batch.last)
            found = split(bytes(self.log.read(offset, 1, isolation="log_end")))
            if found[:1] != [batch]:
                broken.append(f"reading offset {offset} finds {[b[:2] for b in found]}")
            if seen.gaps or self.policy == "compact":
                continue        # compaction may have removed the batch's records of its largest time
            time = headers[seen.batches.index(batch)].max_timestamp
            first = next(h for h in headers if h.max_timestamp >= time)
            answer = self.log.offset_for_time(time, isolation="log_end")
            if answer is None or not first.base <= answer[0] <= first.last:
                broken.append(f"time {time} is in batch {first.base}, the log answers {answer}")
        return broken

    def audit_epochs(self, headers: list[Header]) -> list[str]:
        """Check that the cache knows the epoch of each batch, and that no epoch begins past the end."""
        cache = self.log.epochs
        broken = []
        for header in headers:
            known = cache.epoch_at(max(header.base, self.log.log_start_offset))
            if known != header.leader_epoch:
                broken.append(f"batch {header.base} is of epoch {header.leader_epoch}, the cache says {known}")
        entries = cache.entries()
        if entries and entries[-1][1] > self.log.log_end_offset:
            broken.append(f"epoch {entries[-1]} begins past the end {self.log.log_end_offset}")
        return broken

    def audit_transactions(self, seen: Observed, headers: list[Header]) -> list[str]:
        broken = []
        begun: dict[int, int] = {}
        aborted, beheaded = set(), set()
        for header in headers:
            if header.control:
                first = begun.pop(header.producer_id, None)
                if first is None:
                    beheaded.add((header.producer_id, header.last))     # its records are all below the log start
                elif header.aborts:
                    aborted.add((header.producer_id, first, header.last))
            elif header.transactional:
                begun.setdefault(header.producer_id, header.base)
        # A transaction that began below the log start is known by its true first offset, which is not served.
        answer = {found[:3] for found in self.log.aborted_transactions(seen.start, seen.end)}
        answer = {found for found in answer if (found[0], found[2]) not in beheaded or seen.start == 0}
        ends = {(producer_id, last) for producer_id, _, last in aborted}
        if ends != {(found[0], found[2]) for found in answer} or any(
                found[1] >= seen.start and found not in aborted for found in answer):
            broken.append(f"aborted transactions are {sorted(aborted)}, the index says {sorted(answer)}")
        stable = min(begun.values(), default=self.log.high_watermark)
        unstable_before = min([stable, self.log.high_watermark])
        if self.durability == "page-cache" and seen.start == 0 and self.log.last_stable_offset != unstable_before:
            broken.append(f"the last stable offset is {unstable_before}, the log says {self.log.last_stable_offset}")
        return broken

    def audit_producers(self, seen: Observed, headers: list[Header]) -> list[str]:
        """Check that the newest batch of each idempotent producer is recognized as a duplicate when it is sent
        again."""
        newest = {h.producer_id: batch for h, batch in zip(headers, seen.batches, strict=True)
                  if h.producer_id >= 0 and not h.control}
        broken = []
        for batch in newest.values():
            try:
                info = self.log.append(bytes(8) + batch.data[LENGTH_AT:])
            except KraftError as error:
                broken.append(f"batch {batch.base} sent again is refused: {error}")
                continue
            if not info.duplicate or info.first_offset != batch.base or self.log.log_end_offset != seen.end:
                broken.append(f"batch {batch.base} sent again is answered {info}, the log ends at "
                              f"{self.log.log_end_offset}")
        return broken


def split(data: bytes) -> list[Batch]:
    batches = []
    at = 0
    while at < len(data):
        size = OVERHEAD_BYTES + signed(data[at + LENGTH_AT:at + LEADER_EPOCH_AT])
        batch = data[at:at + size]
        base = signed(batch[:LENGTH_AT])
        batches.append(Batch(base, base + signed(batch[LAST_OFFSET_DELTA_AT:BASE_TIMESTAMP_AT]), batch))
        at += size
    return batches


class EngineLog:
    def __init__(self, policy: str = "delete", *, reader: bool = False):
        self.name = "log" if policy == "delete" else "compacted log"
        self.policy = policy
        self.reader = reader
        self.transactions = policy == "delete"
        self.checks_epochs = True

    def open(self, directory: Path, durability: str) -> EngineSession:
        return EngineSession(directory, durability, self.policy)

    def look(self, directory: Path) -> View:
        return ReaderView(directory, self.policy) if self.reader else self.open(directory, "page-cache")

    def operations(self) -> dict[str, int]:
        if self.policy == "compact":
            return {"append": 50, "flush": 3, "wait": 3, "compact": 6, "reopen": 3, "checkpoint": 3, "roll": 8}
        return {"append": 50, "flush": 3, "wait": 3, "truncate": 4, "restart_at": 1, "delete_records": 3,
                "retention": 2, "reopen": 3, "checkpoint": 4, "epoch": 3, "roll": 3}

    def ignores(self, path: str) -> bool:
        return path.endswith(self.ignored_files())

    def gaps_end(self, state: State) -> int:
        noted = state.files.get("kraft-log-state")
        lines = noted.data.decode().splitlines() if noted else []
        return max((int(line.partition("=")[2]) for line in lines if line.startswith("gaps_end=")), default=0)

    def start_files(self) -> tuple[str, ...]:
        return ("kraft-log-state",)

    def ignored_files(self) -> tuple[str, ...]:
        return ("kraft.live",)
