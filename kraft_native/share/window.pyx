"""The records of one partition that a share group has begun with and not finished (KIP-932; Kafka's SharePartition).

From `start` to `end` each offset has a state, see `transitions`. Equal neighbours are one `Run`, so a batch that is
acquired and acknowledged as a whole costs one element, whatever it holds. The runs cover the offsets without gaps.
Offsets without a record are archived as soon as a read shows that.

An acquisition lock is a time in its run. `deadline_ms` is the earliest one, and `expire` ends those that are over. So
nothing can be acquired without an end (KAFKA-19476), and nothing fires late (KAFKA-18084).

Writes. An acknowledgement is decided at once, and takes effect when its write succeeds. A failed write takes the record
back to its acquirer, with the lock that it had and the same delivery count (KAFKA-19476). Ends of locks and of sessions
take effect at once: losing their write costs a delivery count, or delivers a record again. One write is in flight at a
time; what is decided meanwhile is in the next one, all together. Whatever a write reports, a record that was deleted
meanwhile stays so: its run does not exist any more.

Memory is bounded by twice the number of records in flight: finished runs are joined.
"""

from libc.stdint cimport int16_t, int32_t, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memmove

cimport cython

from kraft_native.base.fault cimport ERROR_INVALID_RECORD_STATE, ERROR_NONE
from kraft_native.share.transitions cimport (
    EVENT_ACQUIRE, EVENT_ARCHIVE, EVENT_EXPIRE, EVENT_FAILED, EVENT_LEAVE, EVENT_RENEW, EVENT_WRITTEN, SHARE_ACQUIRED,
    SHARE_ARCHIVED, SHARE_AVAILABLE, is_pending, is_terminal, next_state, written_state,
)

from kraft_native.base.errors import InvalidArgumentError
from kraft_native.share.transitions import STATES

cdef enum:
    OUTCOME_UNKNOWN = -2
    FAILURES_KEPT = 64
    NUMBERS_KEPT = 64              # members are forgotten beyond this, when they have nothing


@cython.final
cdef class ShareWindow:
    """The records in flight of one share partition. Loop thread only."""

    def __cinit__(self, int64_t start=0):
        self.start = self.end = start
        self.deadline_ms = -1
        self.open_write = 1
        self.numbers = {}
        self.failures = {}

    def __dealloc__(self):
        free(self.runs)
        free(self.acquired)

    def __len__(self) -> int:
        return self.count

    # --- members ----------------------------------------------------------------------------------------------------

    cdef int32_t number_of(self, bytes member) except -1:
        cdef object found = self.numbers.get(member)
        return 0 if found is None else <int32_t>found

    cdef int32_t enlist(self, bytes member) except -1:
        cdef int32_t number = self.number_of(member)
        cdef Py_ssize_t place
        cdef set used
        if number > 0:
            return number
        if len(self.numbers) >= NUMBERS_KEPT and len(self.numbers) > 2 * self.count:
            used = set()
            for place in range(self.count):
                used.add(self.runs[place].member)
            self.numbers = {name: each for name, each in self.numbers.items() if each in used}
        number = 1
        if self.numbers:
            number = <int32_t>next(reversed(self.numbers.values())) + 1
        self.numbers[member] = number
        return number

    # --- runs -------------------------------------------------------------------------------------------------------

    cdef int reserve(self, Py_ssize_t count) except -1:
        cdef Py_ssize_t capacity = max(count, 2 * self.capacity, <Py_ssize_t>8)
        cdef Run* grown
        if count <= self.capacity:
            return 0
        grown = <Run*>realloc(self.runs, <size_t>capacity * sizeof(Run))
        if grown == NULL:
            raise MemoryError(f"{capacity} runs of a share partition")
        self.runs = grown
        self.capacity = capacity
        return 0

    cdef int append(self, int64_t first, int64_t last, int state, int16_t deliveries) except -1:
        cdef Run* run
        self.reserve(self.count + 1)
        run = &self.runs[self.count]
        run.first = first
        run.last = last
        run.state = state
        run.deliveries = deliveries
        run.member = 0
        run.deadline_ms = run.write_id = 0
        self.count += 1
        self.end = last + 1
        return 0

    cdef Py_ssize_t place_of(self, int64_t offset) noexcept nogil:
        cdef Py_ssize_t low = 0, high = self.count, middle
        while low < high:
            middle = (low + high) >> 1
            if self.runs[middle].last < offset:
                low = middle + 1
            else:
                high = middle
        return low

    cdef int split(self, const int64_t* cuts, Py_ssize_t cut_count) except -1:
        cdef Py_ssize_t source, target, cut, added = 0, place
        if self.count == 0:
            return 0
        for cut in range(cut_count):
            place = self.place_of(cuts[cut])
            added += (place < self.count and self.runs[place].first < cuts[cut]
                      and (cut == 0 or cuts[cut] != cuts[cut - 1]))
        if added == 0:
            return 0
        self.reserve(self.count + added)
        source = self.count - 1
        target = self.count + added - 1
        self.count += added
        # From the end on: each run moves to its place, cut into parts.
        cut = cut_count - 1
        while target > source:
            while cut >= 0 and cuts[cut] > self.runs[source].last:
                cut -= 1
            self.runs[target] = self.runs[source]
            while cut >= 0 and cuts[cut] > self.runs[source].first:
                if cuts[cut] <= self.runs[target].last:        # a cut may come twice
                    if cuts[cut] == self.runs[target].first:
                        cut -= 1
                        continue
                    self.runs[target].first = cuts[cut]
                    target -= 1
                    self.runs[target] = self.runs[source]
                    self.runs[target].last = cuts[cut] - 1
                cut -= 1
            source -= 1
            target -= 1
        return 0

    cdef int settle(self) noexcept:
        cdef Py_ssize_t source, target = 0
        cdef Run* run
        cdef Run* before
        cdef bint front = True
        self.acquired_count = self.available_count = 0
        self.deadline_ms = -1
        self.unwritten = self.start_unwritten
        for source in range(self.count):
            run = &self.runs[source]
            if front and is_terminal(run.state):
                self.start = run.last + 1
                self.start_unwritten = self.start_unwritten or run.write_id > 0
                self.unwritten = self.unwritten or run.write_id > 0
                continue
            front = False
            if run.state == SHARE_AVAILABLE:
                self.available_count += run.last - run.first + 1
            elif not is_terminal(run.state):
                self.acquired_count += run.last - run.first + 1
            if run.state == SHARE_ACQUIRED and (self.deadline_ms < 0 or run.deadline_ms < self.deadline_ms):
                self.deadline_ms = run.deadline_ms
            self.unwritten = self.unwritten or run.write_id == self.open_write
            if target > 0:
                before = &self.runs[target - 1]
                if before.state == run.state and before.write_id == run.write_id and (
                    (is_terminal(run.state) and run.write_id == 0)
                    or (before.deliveries == run.deliveries and before.member == run.member
                        and before.deadline_ms == run.deadline_ms)
                ):
                    before.last = run.last
                    continue
            if target != source:
                self.runs[target] = run[0]
            target += 1
        self.count = target
        return 0

    cdef int apply(self, Run* run, int event, bint exhausted) noexcept:
        """Apply an event that the run's state allows, and note what is to be written."""
        run.state = next_state(run.state, event, exhausted)
        if event != EVENT_RENEW:
            run.write_id = self.open_write
        if run.state == SHARE_AVAILABLE or is_terminal(run.state):
            run.member = 0
            run.deadline_ms = 0
        return 0

    # --- delivery ---------------------------------------------------------------------------------------------------

    cdef int64_t next_offset(self) noexcept:
        cdef Py_ssize_t place
        if self.available_count > 0:
            for place in range(self.count):
                if self.runs[place].state == SHARE_AVAILABLE:
                    return self.runs[place].first
        return self.end

    cdef bint has_room(self, int64_t locks_max) noexcept:
        return self.available_count > 0 or self.acquired_count < locks_max

    cdef int64_t acquire(self, const Extent* extents, Py_ssize_t extent_count, int64_t from_offset, bytes member,
                         const Bounds* bounds) except -1:
        cdef int64_t cursor = max(from_offset, self.start), taken = 0, last, size
        cdef int32_t number = self.enlist(member)
        cdef Py_ssize_t at, place
        cdef const Extent* extent
        cdef bint over = False
        self.acquired_entries = 0
        place = self.place_of(cursor)
        for at in range(extent_count):
            extent = &extents[at]
            if extent.last < cursor:
                continue
            if taken >= bounds.records_max or over:
                break
            place = self.pass_over(place, cursor, extent.first - 1)
            if extent.skipped:
                place = self.pass_over(place, extent.first, extent.last)
                cursor = extent.last + 1
                continue
            while place < self.count and self.runs[place].first <= extent.last:
                if self.runs[place].state == SHARE_AVAILABLE:
                    last = extent.last
                    if bounds.strict:
                        last = min(last, self.runs[place].first + bounds.records_max - taken - 1)
                    if last < self.runs[place].first:
                        break
                    place = self.clip(place, extent.first, last)
                    taken += self.runs[place].last - self.runs[place].first + 1
                    self.take(place, number, bounds)
                elif self.runs[place].last > extent.last:
                    break
                place += 1
            if extent.last >= self.end:
                last = extent.last
                if bounds.strict:
                    last = min(last, self.end - 1 + min(bounds.records_max - taken, self.growth(bounds)))
                    over = last < extent.last
                elif self.growth(bounds) <= 0:
                    break
                if last >= self.end:
                    self.append(self.end, last, SHARE_AVAILABLE, 0)
                    size = last - self.runs[self.count - 1].first + 1
                    self.available_count += size
                    taken += size
                    self.take(self.count - 1, number, bounds)
                place = self.count
            cursor = extent.last + 1
        self.settle()
        return taken

    cdef int64_t growth(self, const Bounds* bounds) noexcept:
        """Return how many further records may be in flight."""
        return bounds.locks_max - self.available_count - self.acquired_count

    cdef Py_ssize_t clip(self, Py_ssize_t place, int64_t first, int64_t last) except -1:
        """Cut a run that reaches out of `first` to `last`, and return the place of the part inside."""
        cdef int64_t cuts[2]
        cdef bint begins_before = self.runs[place].first < first
        if begins_before or self.runs[place].last > last:
            cuts[0] = first
            cuts[1] = last + 1
            self.split(cuts, 2)
        return place + begins_before

    cdef Py_ssize_t pass_over(self, Py_ssize_t place, int64_t first, int64_t last) except -1:
        """Archive what is available from `first` to `last`, or was not reached yet: the log has nothing there to
        deliver."""
        if last < first:
            return place
        while place < self.count and self.runs[place].first <= last:
            if self.runs[place].state == SHARE_AVAILABLE and self.runs[place].last >= first:
                place = self.clip(place, first, last)
                self.available_count -= self.runs[place].last - self.runs[place].first + 1
                self.runs[place].state = next_state(SHARE_AVAILABLE, EVENT_ARCHIVE, False)
                self.runs[place].write_id = 0
            elif self.runs[place].last > last:
                return place
            place += 1
        if last >= self.end:
            self.append(self.end, last, SHARE_ARCHIVED, 0)
            place = self.count
        return place

    cdef int take(self, Py_ssize_t place, int32_t member, const Bounds* bounds) except -1:
        """Acquire an available run, and note it for the reply."""
        cdef Run* run = &self.runs[place]
        cdef int64_t size = run.last - run.first + 1
        cdef Acquired* entry
        cdef Py_ssize_t capacity
        run.state = next_state(run.state, EVENT_ACQUIRE, False)
        run.member = member
        run.deadline_ms = bounds.deadline_ms
        run.deliveries += 1
        run.write_id = 0
        self.available_count -= size
        self.acquired_count += size
        if self.acquired_entries > 0:
            entry = &self.acquired[self.acquired_entries - 1]
            if entry.last + 1 == run.first and entry.deliveries == run.deliveries and (
                run.last - entry.first < bounds.records_per_entry
            ):
                entry.last = run.last
                return 0
        if self.acquired_entries == self.acquired_capacity:
            capacity = max(2 * self.acquired_capacity, <Py_ssize_t>8)
            entry = <Acquired*>realloc(self.acquired, <size_t>capacity * sizeof(Acquired))
            if entry == NULL:
                raise MemoryError(f"{capacity} entries of acquired records")
            self.acquired = entry
            self.acquired_capacity = capacity
        entry = &self.acquired[self.acquired_entries]
        entry.first = run.first
        entry.last = run.last
        entry.deliveries = run.deliveries
        self.acquired_entries += 1
        return 0

    # --- acknowledgement --------------------------------------------------------------------------------------------

    cdef int change(self, const Change* changes, Py_ssize_t change_count, bytes member, int16_t deliveries_max,
                    int64_t renewed_until_ms, int64_t* write_id) except -1:
        cdef int32_t number = self.number_of(member)
        cdef Py_ssize_t at, place
        cdef int64_t first
        cdef Run* run
        cdef int error = ERROR_NONE
        write_id[0] = 0
        self.cut_for(changes, change_count)
        for at in range(change_count):
            if changes[at].last < self.log_start:
                continue                   # deleted while the member had them
            first = max(changes[at].first, self.log_start)
            if first < self.start or changes[at].last >= self.end:
                error = ERROR_INVALID_RECORD_STATE
                break
            place = self.place_of(first)
            while place < self.count and self.runs[place].first <= changes[at].last:
                run = &self.runs[place]
                if run.member != number or number == 0 or next_state(run.state, changes[at].event, False) < 0:
                    error = ERROR_INVALID_RECORD_STATE
                    break
                place += 1
            if error != ERROR_NONE:
                break
        for at in range(change_count if error == ERROR_NONE else 0):
            place = self.place_of(max(changes[at].first, self.log_start))
            while place < self.count and self.runs[place].first <= changes[at].last:
                run = &self.runs[place]
                if changes[at].event == EVENT_RENEW:
                    run.deadline_ms = renewed_until_ms
                else:
                    write_id[0] = self.open_write
                self.apply(run, changes[at].event, run.deliveries >= deliveries_max)
                place += 1
        self.settle()
        return error

    cdef int cut_for(self, const Change* changes, Py_ssize_t change_count) except -1:
        cdef int64_t* cuts = <int64_t*>realloc(NULL, 2 * <size_t>change_count * sizeof(int64_t) + 1)
        cdef Py_ssize_t at
        if cuts == NULL:
            raise MemoryError(f"{change_count} acknowledgements")
        try:
            for at in range(change_count):
                cuts[2 * at] = changes[at].first
                cuts[2 * at + 1] = changes[at].last + 1
            self.split(cuts, 2 * change_count)
        finally:
            free(cuts)
        return 0

    cpdef bint leave(self, bytes member) except -1:
        """Release everything that a member has. Return whether that was anything."""
        cdef int32_t number = self.number_of(member)
        cdef Py_ssize_t place
        cdef bint found = False
        if number == 0:
            return False
        for place in range(self.count):
            if self.runs[place].member == number and self.runs[place].state == SHARE_ACQUIRED:
                self.apply(&self.runs[place], EVENT_LEAVE, False)
                self.runs[place].deliveries = max(0, self.runs[place].deliveries - 1)
                found = True
        if found:
            self.settle()
        return found

    cpdef bint expire(self, int64_t now_ms, int16_t deliveries_max) noexcept:
        """End the locks whose time is over. Return whether that was any."""
        cdef Py_ssize_t place
        cdef bint found = False
        if self.deadline_ms < 0 or self.deadline_ms > now_ms:
            return False
        for place in range(self.count):
            if self.runs[place].state == SHARE_ACQUIRED and self.runs[place].deadline_ms <= now_ms:
                self.apply(&self.runs[place], EVENT_EXPIRE, self.runs[place].deliveries >= deliveries_max)
                found = True
        self.settle()
        return found

    # --- the log ----------------------------------------------------------------------------------------------------

    cpdef int follow(self, int64_t log_start, int64_t log_end) except -1:
        """Follow the log: what is below its start or from its end on is dropped."""
        cdef Py_ssize_t place
        self.log_start = max(self.log_start, log_start)
        if log_start <= self.start and self.end <= log_end:
            return 0
        if log_start > self.start:
            place = self.place_of(log_start)
            self.count -= place
            memmove(self.runs, self.runs + place, <size_t>self.count * sizeof(Run))
            if self.count > 0:
                self.runs[0].first = max(self.runs[0].first, log_start)
            self.start = log_start
            self.end = max(self.end, log_start)
        if self.end > log_end:
            # Records of the log were lost, which its new records replace.
            while self.count > 0 and self.runs[self.count - 1].first >= log_end:
                self.count -= 1
            if self.count > 0:
                self.runs[self.count - 1].last = min(self.runs[self.count - 1].last, log_end - 1)
            self.end = log_end
            self.start = min(self.start, log_end)
        self.settle()
        return 0

    # --- writes -----------------------------------------------------------------------------------------------------

    def load(self, int64_t start, list batches not None: list[tuple[int, int, int, int]]) -> None:
        """Begin with what was written: the start, and (first offset, last offset, state, delivery count) in ascending
        order. Offsets between them are available. `InvalidArgumentError`: this is no such state."""
        cdef int64_t first, last
        cdef int state, deliveries
        self.count = 0
        self.start = self.end = start
        self.log_start = 0
        for first, last, state, deliveries in batches:
            first = max(first, start)
            if last < first:
                continue
            if first < self.end or not (state == SHARE_AVAILABLE or is_terminal(state)) or not (
                0 <= deliveries <= 0x7FFF
            ):
                raise InvalidArgumentError(f"batches: {first} to {last} in state {state} does not follow {self.end}")
            if first > self.end:
                self.append(self.end, first - 1, SHARE_AVAILABLE, 0)
            self.append(first, last, state, <int16_t>deliveries)
        self.settle()

    def take_write(self) -> tuple[int, int, list[tuple[int, int, int, int]]] | None:
        """Begin the next write: the start, the number of finished offsets from it on, and batches as for `load`. None
        when another one is in flight, or nothing is to be written."""
        cdef list batches = []
        cdef int64_t finished = 0, first = -1, last = -1
        cdef int state = -1, deliveries = 0, written
        cdef Py_ssize_t place
        cdef Run* run
        if self.write_in_flight or not self.unwritten:
            return None
        for place in range(self.count):
            run = &self.runs[place]
            written = written_state(run.state)
            if is_terminal(written):
                finished += run.last - run.first + 1
            if run.write_id != self.open_write:
                continue
            if state == written and deliveries == run.deliveries and last + 1 == run.first:
                last = run.last
                continue
            if state >= 0:
                batches.append((first, last, state, deliveries))
            first, last, state, deliveries = run.first, run.last, written, run.deliveries
        if state >= 0:
            batches.append((first, last, state, deliveries))
        self.write_in_flight = self.open_write
        self.open_write += 1
        self.start_in_flight = self.start_unwritten
        self.start_unwritten = False
        self.settle()
        return self.start, finished, batches

    def written(self, int error) -> None:
        """Note the outcome of the write in flight: Kafka's error, or 0. Decided changes take effect, or are undone."""
        cdef int64_t write_id = self.write_in_flight
        cdef Py_ssize_t place
        cdef Run* run
        if write_id == 0:
            raise AssertionError("no write is in flight")
        self.write_in_flight = 0
        if error != ERROR_NONE:
            self.start_unwritten = self.start_unwritten or self.start_in_flight
            self.failures[write_id] = error
            if len(self.failures) > FAILURES_KEPT:
                del self.failures[next(iter(self.failures))]
        for place in range(self.count):
            run = &self.runs[place]
            if run.write_id != write_id:
                continue
            if is_pending(run.state):
                run.state = next_state(run.state, EVENT_WRITTEN if error == ERROR_NONE else EVENT_FAILED, False)
                run.write_id = 0
                if run.state != SHARE_ACQUIRED:
                    run.member = 0
                    run.deadline_ms = 0
            else:
                run.write_id = 0 if error == ERROR_NONE else self.open_write
        self.settle()

    cpdef int outcome(self, int64_t write_id) except -3:
        """Return the outcome of a write: 0, Kafka's error, or -2 while it is not known."""
        cdef object error
        if write_id >= self.open_write or write_id == self.write_in_flight:
            return OUTCOME_UNKNOWN
        error = self.failures.get(write_id)
        return ERROR_NONE if error is None else <int>error

    # --- for tests --------------------------------------------------------------------------------------------------

    @property
    def next_fetch_offset(self) -> int:
        """Offset from which the next records are read."""
        return self.next_offset()

    def states(self) -> list[tuple[int, int, str, int, int]]:
        """Return first offset, last offset, state, delivery count and end of the lock of each run."""
        cdef Py_ssize_t place
        cdef list found = []
        for place in range(self.count):
            found.append((self.runs[place].first, self.runs[place].last, STATES[self.runs[place].state],
                          self.runs[place].deliveries, self.runs[place].deadline_ms))
        return found

    def acquire_from(self, bytes member not None, list extents not None: list[tuple[int, int, bool]],
                     int64_t deadline_ms, *, int64_t from_offset=-1, int64_t records_max=500,
                     int64_t records_per_entry=500, int64_t locks_max=2000,
                     bint strict=False) -> list[tuple[int, int, int]]:
        """Acquire as a ShareFetch does, from (first offset, last offset, skipped) of the log's batches. Return first
        offset, last offset and delivery count of what was acquired."""
        cdef Extent* array = <Extent*>realloc(NULL, (<size_t>len(extents) + 1) * sizeof(Extent))
        cdef Bounds bounds
        cdef Py_ssize_t at
        cdef list found = []
        if array == NULL:
            raise MemoryError("extents")
        bounds.records_max = records_max
        bounds.records_per_entry = records_per_entry
        bounds.locks_max = locks_max
        bounds.deadline_ms = deadline_ms
        bounds.strict = strict
        try:
            for at in range(len(extents)):
                array[at].first, array[at].last, array[at].skipped = extents[at]
            self.acquire(array, len(extents), self.next_offset() if from_offset < 0 else from_offset, member, &bounds)
        finally:
            free(array)
        for at in range(self.acquired_entries):
            found.append((self.acquired[at].first, self.acquired[at].last, self.acquired[at].deliveries))
        return found

    def acknowledge(self, bytes member not None, list changes not None: list[tuple[int, int, int]], *,
                    int16_t deliveries_max=5, int64_t renewed_until_ms=0) -> tuple[int, int]:
        """Acknowledge (first offset, last offset, acknowledge type), ascending. Return Kafka's error and the write."""
        cdef Change* array = <Change*>realloc(NULL, (<size_t>len(changes) + 1) * sizeof(Change))
        cdef Py_ssize_t at
        cdef int64_t write_id
        cdef int error
        cdef int64_t before = -1
        if array == NULL:
            raise MemoryError("changes")
        try:
            for at in range(len(changes)):
                array[at].first, array[at].last, array[at].event = changes[at]
                if not before < array[at].first <= array[at].last < 0x7FFFFFFFFFFFFFFF:
                    raise InvalidArgumentError(f"changes: {changes[at]} does not follow {before}")
                before = array[at].last
            error = self.change(array, len(changes), member, deliveries_max, renewed_until_ms, &write_id)
        finally:
            free(array)
        return error, write_id
