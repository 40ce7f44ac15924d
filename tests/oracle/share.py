"""Model of the records in flight of a share partition: one dict entry for each offset, and no cleverness."""

from dataclasses import dataclass

INVALID_RECORD_STATE = 121
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
WAITING = {ACCEPT: "ACCEPTING", GAP: "REJECTING", REJECT: "REJECTING", RELEASE: "RELEASING"}
WRITTEN = {"ACCEPTING": "ACKNOWLEDGED", "REJECTING": "ARCHIVED", "RELEASING": "AVAILABLE"}
CODES = {"AVAILABLE": 0, "ACKNOWLEDGED": 2, "ARCHIVED": 4}
FINISHED = ("ACKNOWLEDGED", "ARCHIVED")


@dataclass
class Record:
    state: str = "AVAILABLE"
    deliveries: int = 0
    member: bytes = b""
    deadline_ms: int = 0
    write_id: int = 0


class ShareModel:
    """The same operations as `ShareWindow` has."""

    def __init__(self, deliveries_max: int) -> None:
        self.records: dict[int, Record] = {}
        self.start = self.end = self.log_start = 0
        self.deliveries_max = deliveries_max
        self.open_write = 1
        self.in_flight = 0

    def settle(self) -> None:
        while self.start < self.end and self.records[self.start].state in FINISHED:
            del self.records[self.start]
            self.start += 1

    def in_state(self, *states: str) -> list[int]:
        return [offset for offset, record in sorted(self.records.items()) if record.state in states]

    @property
    def next_offset(self) -> int:
        return min(self.in_state("AVAILABLE"), default=self.end)

    @property
    def deadline_ms(self) -> int:
        return min((self.records[offset].deadline_ms for offset in self.in_state("ACQUIRED")), default=-1)

    def acquire(self, member: bytes, extents: list[tuple[int, int, bool]], deadline_ms: int, records_max: int,
                locks_max: int, strict: bool) -> list[int]:
        """Acquire extent by extent, record by record."""
        cursor, taken = self.next_offset, []
        for first, last, skipped in extents:
            if last < cursor:
                continue
            if len(taken) >= records_max:
                break
            self._pass_over(cursor, first - 1)
            if skipped:
                self._pass_over(first, last)
                cursor = last + 1
                continue
            for offset in range(max(first, self.start), min(last + 1, self.end)):
                record = self.records[offset]
                if record.state == "AVAILABLE" and offset >= cursor and not (strict and len(taken) >= records_max):
                    self._take(record, member, deadline_ms)
                    taken.append(offset)
            if last >= self.end:
                in_flight = sum(record.state not in FINISHED for record in self.records.values())
                if in_flight >= locks_max and not strict:
                    break
                while self.end <= last and not (strict and (len(taken) >= records_max or in_flight >= locks_max)):
                    record = self.records[self.end] = Record()
                    self._take(record, member, deadline_ms)
                    taken.append(self.end)
                    self.end += 1
                    in_flight += 1
                if self.end <= last:
                    break
            cursor = last + 1
        self.settle()
        return taken

    def _pass_over(self, first: int, last: int) -> None:
        for offset in range(first, last + 1):
            if offset >= self.end:
                self.records[offset] = Record("ARCHIVED")
                self.end = offset + 1
            elif offset >= self.start and self.records[offset].state == "AVAILABLE":
                self.records[offset] = Record("ARCHIVED", self.records[offset].deliveries)

    @staticmethod
    def _take(record: Record, member: bytes, deadline_ms: int) -> None:
        record.state, record.member, record.deadline_ms, record.write_id = "ACQUIRED", member, deadline_ms, 0
        record.deliveries += 1

    def acknowledge(self, member: bytes, changes: list[tuple[int, int, int]], renewed_until_ms: int) -> int:
        chosen = []
        for first, last, kind in changes:
            for offset in range(first, last + 1):
                if offset < self.log_start:
                    continue
                record = self.records.get(offset)
                if record is None or record.state != "ACQUIRED" or record.member != member:
                    return INVALID_RECORD_STATE
                chosen.append((record, kind))
        for record, kind in chosen:
            if kind == RENEW:
                record.deadline_ms = renewed_until_ms
                continue
            record.state = WAITING[kind]
            if kind == RELEASE and record.deliveries >= self.deliveries_max:
                record.state = "REJECTING"
            record.write_id = self.open_write
        return 0

    def leave(self, member: bytes) -> None:
        for record in self.records.values():
            if record.state == "ACQUIRED" and record.member == member:
                self._set(record, "AVAILABLE")
                record.deliveries -= 1
        self.settle()

    def expire(self, now_ms: int) -> None:
        for record in self.records.values():
            if record.state == "ACQUIRED" and record.deadline_ms <= now_ms:
                self._set(record, "ARCHIVED" if record.deliveries >= self.deliveries_max else "AVAILABLE")
        self.settle()

    def _set(self, record: Record, state: str) -> None:
        record.state, record.member, record.deadline_ms, record.write_id = state, b"", 0, self.open_write

    def follow(self, log_start: int, log_end: int) -> None:
        self.log_start = max(self.log_start, log_start)
        if log_start > self.start:
            self.records = {offset: record for offset, record in self.records.items() if offset >= log_start}
            self.start, self.end = log_start, max(self.end, log_start)
        if self.end > log_end:
            self.records = {offset: record for offset, record in self.records.items() if offset < log_end}
            self.end, self.start = log_end, min(self.start, log_end)
        self.settle()

    def take_write(self) -> dict[int, tuple[int, int]]:
        """Return what the write has: state and delivery count by offset."""
        self.in_flight = self.open_write
        self.open_write += 1
        return {offset: (CODES[WRITTEN.get(record.state, record.state)], record.deliveries)
                for offset, record in self.records.items() if record.write_id == self.in_flight}

    def written(self, is_ok: bool) -> None:
        for record in self.records.values():
            if record.write_id == self.in_flight:
                if record.state in WRITTEN:
                    record.state = WRITTEN[record.state] if is_ok else "ACQUIRED"
                    record.write_id = 0
                    if record.state != "ACQUIRED":
                        record.member, record.deadline_ms = b"", 0
                else:
                    record.write_id = 0 if is_ok else self.open_write
        self.in_flight = 0
        self.settle()
