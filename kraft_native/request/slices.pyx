"""Shares of the loop's time: work longer than a slice is resumed in a later iteration, in a fair queue.

Two kinds of work have no natural end within one iteration of the loop: the requests that a connection has pipelined,
and a request with very many elements. A connection dispatches requests until its slice is used up. A long request is a
generator that yields after each step of a few dozen elements. Both then wait here, and each iteration gives slices to
the front of the queue until the iteration's time is used up. The rest continues in the next one.

A connection that was just read from has its slice at once, in the read. When such connections have used up the time of
an iteration, the following ones wait in a queue of their own. It alternates with the queue of those that already used
up a slice: each queue has half of the time. All that were just read from share an iteration. The second slice of a
connection's only request comes from the first queue, too. A short request takes longer than a slice when the machine
gives the processor to others. So a client that sends one request at a time waits for about two iterations, and
never for requests that others have pipelined.

A request that has used up `LONG_SLICES` is long; one of `LARGE_BYTES` is after its first slice, before most of it is
decoded. At most `LONG_MAX` of these are processed at the same time; the others wait until one of them is done. So the
memory of requests as objects, and of unfinished answers, hardly grows with the number of clients. Work that a long
request begins for the same reply, its answer, is long too, and does not wait.

Nothing large is freed in one step. What the work owns is noted when its slice begins (`base/freeing.pyx`), and outlives
it. It is freed in slices of its own when the work has ended or does not refer to it any more.
"""

from collections import deque

cimport cython

from libc.stdint cimport int16_t

from kraft_native.base.clock cimport monotonic_ns, thread_ns
from kraft_native.base.freeing cimport Freeing, containers_of
from kraft_native.request.reply cimport REPLY_OPEN, ReplySink
from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    ENDPOINTS = -1                 # in `longest_ns`
    LONG_MAX = 3
    LONG_SLICES = 8
    LARGE_BYTES = 64 * 1024        # of a request: a hundred thousand elements as objects are a hundred times as large
    FREED_AT_ONCE = 256            # elements of short work; to free so few in a later iteration costs more
    FRESH_SHARES_MAX = 8           # an endpoint that was just read from has at least this part of a slice


@cython.final
cdef class Steps:
    """One request's work as a generator; the queue creates it."""


@cython.final
cdef class SliceQueue:
    """Work of one loop that is resumed in slices: pipelined requests of connections, requests with very many elements.
    Loop thread only; counters may be read at any time.

    `call_soon` is the loop's. `on_failure(exception)` gets exceptions of the work: internal errors. A slice is the time
    that one connection or one request has before others have theirs. An iteration is the time that all slices have
    before the loop serves sockets and timers again.
    """

    def __init__(self, call_soon not None: Callable[[Callable[[], None]], Any],
                 on_failure not None: Callable[[BaseException], object], *, int64_t slice_us=1000,
                 int64_t iteration_us=4000):
        if not 0 < slice_us <= iteration_us <= 1_000_000:
            raise InvalidArgumentError(f"slice_us must be 1 to iteration_us, and that at most 1000000, "
                                       f"not {slice_us} and {iteration_us}")
        self.call_soon = call_soon
        self.on_failure = on_failure
        self.fresh = deque()
        self.waiting = deque()
        self.crowd = deque()
        self.slice_ns = self.turn_ns = slice_us * 1000
        self.iteration_ns = iteration_us * 1000
        self.used_up = {}
        self.longest_ns = {}

    @property
    def waiting_count(self) -> int:
        """Connections and requests that wait for their next slice."""
        return len(self.fresh) + len(self.waiting) + len(self.crowd)

    def start(self, Reply reply not None, work not None: Generator[None]) -> None:
        """Run `work` for a slice now, and the rest of it in later iterations. It yields after each step of well below a
        millisecond; an exception of it is an internal error. It is closed when the connection of `reply` closes before
        the answer."""
        cdef Steps steps = Steps.__new__(Steps)
        steps.reply = reply
        steps.work = work
        steps.is_large = reply.held_bytes >= LARGE_BYTES and reply.at.handed_ns == 0      # it is not decoded yet
        if self.current is not None and self.current.reply is reply:
            steps.slices = self.current.slices
            steps.is_long = self.current.is_long
        if steps.is_long:
            self.long_count += 1
        if self.advance(steps, monotonic_ns() + self.slice_ns):
            self.keep(steps)
            self.schedule()
        else:
            self.end(steps)

    def call(self, Reply reply not None, action not None: Callable[[], object]) -> None:
        """Run work now that is known to be short. An exception of it is an internal error."""
        cdef int64_t began_ns = monotonic_ns()
        cdef int64_t now_ns
        try:
            action()
        except BaseException as cause:
            if reply.state == REPLY_OPEN:
                reply.refuse("failure")
            self.on_failure(cause)
        now_ns = monotonic_ns()
        if now_ns - began_ns > self.slice_ns:
            self.note(reply.api_key, now_ns - began_ns, 0)
        reply.count_step(now_ns - began_ns, now_ns)

    def work(self, int api_key, work not None: Generator[None]) -> None:
        """Run work on a request of that API that does not end with its connection; all of it in later iterations."""
        cdef Reply reply = Reply.__new__(Reply)
        reply.api_key = <int16_t>api_key
        self.later(reply, work, True)

    def free(self, int api_key, list held not None: list[object]) -> None:
        """Free messages and containers of a request of that API, in later iterations. The list becomes empty."""
        cdef Steps steps = Steps.__new__(Steps)
        steps.reply = Reply.__new__(Reply)
        steps.reply.api_key = <int16_t>api_key
        steps.work = Freeing(held)
        steps.outlives = steps.is_freeing = True
        self.waiting.append(steps)
        self.schedule()

    cdef int look(self, Steps steps) except -1:
        cdef list before = steps.held
        cdef list dropped
        steps.held = containers_of(steps.work, before)
        if before is None or len(before) == 0:
            return 0
        dropped = [each for each in before if not any([each is other for other in steps.held])]
        before.clear()
        if len(dropped) > 0:
            self.free(steps.reply.api_key, dropped)
        return 0

    cdef int release(self, Steps steps) except -1:
        cdef list held = steps.held
        cdef Py_ssize_t count = 0
        steps.work = steps.held = None
        if held is None or len(held) == 0:
            return 0
        for each in held:
            count += len(each)
        if steps.slices > 0 or count > FREED_AT_ONCE:
            self.free(steps.reply.api_key, held)
        return 0

    cdef int later(self, Reply reply, object work, bint outlives) except -1:
        cdef Steps steps = Steps.__new__(Steps)
        steps.reply = reply
        steps.work = work
        steps.outlives = outlives
        self.keep(steps)
        return self.schedule()

    cdef int keep(self, Steps steps) except -1:
        cdef int key = steps.reply.api_key
        if steps.is_freeing:
            self.waiting.append(steps)
            return 0
        steps.slices += 1
        if steps.slices == 1:
            self.used_up[key] = self.used_up.get(key, 0) + 1
        if not steps.is_long and (steps.is_large or steps.slices >= LONG_SLICES):
            steps.is_long = True
            if self.long_count >= LONG_MAX:
                self.crowd.append(steps)
                return 0
            self.long_count += 1
        if self.is_only_request(steps):
            self.fresh.append(steps)
        else:
            self.waiting.append(steps)
        return 0

    cdef bint is_only_request(self, Steps steps) except -1:
        cdef ReplySink sink = steps.reply.sink
        return (steps.slices == 1 and not steps.is_long and isinstance(sink, Endpoint)
                and (<Endpoint>sink).has_one_request())

    cdef int end(self, Steps steps) except -1:
        """Have another one of the crowd begin after a long one."""
        if steps.is_long:
            if self.crowd and self.long_count <= LONG_MAX:
                self.waiting.append(self.crowd.popleft())
                self.schedule()
            else:
                self.long_count -= 1
        return 0

    cdef bint advance(self, Steps steps, int64_t until_ns) except -1:
        cdef Reply reply = steps.reply
        cdef int64_t began_ns = monotonic_ns()
        cdef int64_t before_ns = began_ns
        cdef int64_t now_ns = began_ns
        cdef int64_t thread_began_ns = thread_ns()
        cdef bint more = False
        cdef Steps outer = self.current
        if not steps.is_freeing:
            self.look(steps)
        if reply.sink is None and reply.state == REPLY_OPEN and not steps.outlives:    # its connection is closed
            steps.work.close()
            self.release(steps)
            return False
        self.current = steps
        try:
            for _ in steps.work:
                now_ns = monotonic_ns()
                if now_ns - before_ns > self.slice_ns:
                    self.note(reply.api_key, now_ns - before_ns, thread_began_ns)
                before_ns = now_ns
                if now_ns >= until_ns:
                    more = True
                    break
        except BaseException as cause:
            if reply.state == REPLY_OPEN:
                reply.refuse("failure")
            self.on_failure(cause)
        self.current = outer
        if not more:
            self.release(steps)
        now_ns = monotonic_ns()
        if now_ns - before_ns > self.slice_ns:
            self.note(reply.api_key, now_ns - before_ns, thread_began_ns)
        reply.count_step(now_ns - began_ns, now_ns)
        return more

    cdef int note(self, int key, int64_t time_ns, int64_t thread_began_ns) except -1:
        if thread_began_ns > 0:
            time_ns = min(time_ns, thread_ns() - thread_began_ns)
        if time_ns > self.longest_ns.get(key, 0):
            self.longest_ns[key] = time_ns
        return 0

    cdef bint is_spent(self) noexcept:
        return self.spent_ns >= self.iteration_ns

    cdef int spend(self, int64_t time_ns) except -1:
        self.spent_ns += time_ns
        if time_ns > self.slice_ns:
            self.note(ENDPOINTS, time_ns, 0)
        if self.spent_ns >= self.slice_ns and not self.due:
            self.schedule()
        return 0

    cdef int add(self, Endpoint endpoint, bint fresh) except -1:
        if endpoint.queued:
            return 0
        endpoint.queued = True
        if fresh:
            self.fresh.append(endpoint)
        else:
            self.deferred += 1
            self.waiting.append(endpoint)
        return self.schedule()

    cdef int schedule(self) except -1:
        if not self.due:
            self.due = True
            self.call_soon(self.run)
        return 0

    cdef int64_t fresh_turn_ns(self) noexcept:
        return max(self.slice_ns // FRESH_SHARES_MAX, min(self.slice_ns, self.iteration_ns // (1 + len(self.fresh))))

    def run(self) -> None:
        """Run one iteration. The loop calls it."""
        cdef int64_t now_ns = monotonic_ns()
        cdef int64_t end_ns = now_ns + self.iteration_ns
        cdef int64_t before_ns
        cdef int64_t ahead_ns = self.ahead_ns
        cdef bint fresh
        self.due = False
        self.spent_ns = 0
        self.iterations += 1
        while now_ns < end_ns and (self.fresh or self.waiting):
            fresh = len(self.fresh) > 0 and (ahead_ns <= 0 or not self.waiting)
            self.turn_ns = self.fresh_turn_ns() if fresh else self.slice_ns
            entry = (self.fresh if fresh else self.waiting).popleft()
            before_ns = now_ns
            if type(entry) is Steps:
                if self.advance(<Steps>entry, now_ns + self.turn_ns):
                    self.keep(<Steps>entry)
                else:
                    self.end(<Steps>entry)
                now_ns = monotonic_ns()
            else:
                self.give_slice(<Endpoint>entry)
                now_ns = monotonic_ns()
                if now_ns - before_ns > self.slice_ns:
                    self.note(ENDPOINTS, now_ns - before_ns, 0)
            ahead_ns += now_ns - before_ns if fresh else before_ns - now_ns
        self.turn_ns = self.slice_ns
        self.ahead_ns = max(-self.iteration_ns, min(self.iteration_ns, ahead_ns)) if self.fresh else 0
        if self.fresh or self.waiting:
            self.schedule()

    cdef int give_slice(self, Endpoint endpoint) except -1:
        endpoint.queued = False
        try:
            endpoint.take_slice()
        except BaseException as cause:
            self.on_failure(cause)
            endpoint.abort("failure")
        return 0
