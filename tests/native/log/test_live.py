"""The live page: a view reads what an owner publishes, wake-ups arrive, a dead owner is noticed."""

import errno
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kraft_native.base import errors
from kraft_native.file import faults
from kraft_native.log import live
from kraft_native.log.live import LivePage, LiveView
from tools.tree import ROOT

SOON = 20.0  # seconds; a bound for things that happen at once

LIMITS = ("log_start", "high_watermark", "last_stable_offset", "log_end", "active_base", "active_bytes")


def run(code: str, *arguments: object, **options: object) -> subprocess.Popen[str]:
    """Start a Python process of its own with the engine; it communicates by lines."""
    head = "import sys\nfrom kraft_native.log import live\ndef say(*a): print(*a, flush=True)\n"
    return subprocess.Popen([sys.executable, "-c", head + code, *map(str, arguments)], cwd=ROOT, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)


OWNER = """
page = live.LivePage(sys.argv[1])
page.publish(1, 5, 4, 9, 0, 77)
page.end_truncation()
say("ready")
for line in sys.stdin:
    exec(line)
    say("done")
"""


class Owner:
    """Owner in another process that runs the statements sent to it."""

    def __init__(self, directory: Path) -> None:
        self.process = run(OWNER, directory)
        assert self.line() == "ready"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def send(self, statement: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()

    def do(self, statement: str) -> None:
        self.send(statement)
        assert self.line() == "done"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(autouse=True)
def no_pages_left():
    before = live.counters()
    yield
    assert live.counters() == before


@pytest.fixture
def owner(tmp_path):
    started = Owner(tmp_path)
    yield started
    started.end()


def limits(view: LiveView) -> tuple[int, ...]:
    state = view.state()
    return tuple(state[name] for name in LIMITS)


def test_a_view_reads_what_the_owner_published(tmp_path):
    page = LivePage(tmp_path)
    view = LiveView(tmp_path)
    first = view.state()
    assert first["truncation_generation"] == 1
    assert not first["closed"]
    page.publish(1, 5, 4, 9, 3, 77)
    page.end_truncation()
    assert limits(view) == (1, 5, 4, 9, 3, 77)
    assert view.state()["truncation_generation"] == 2
    page.begin_truncation()
    page.begin_truncation()  # the second call changes nothing
    assert view.state()["truncation_generation"] == 3
    page.publish(1, 2, 2, 2, 0, 10)
    page.end_truncation()
    state = view.state()
    assert (state["truncation_generation"], state["log_end"]) == (4, 2)
    page.segments_changed()
    assert view.state()["segments_generation"] == state["segments_generation"] + 1
    assert view.owner_alive
    assert view.owner_pid == os.getpid()
    assert view.writable
    page.close()
    assert view.state()["closed"] == 1
    assert not view.owner_alive
    page.close()
    for refused in (page.begin_truncation, page.end_truncation, page.segments_changed, lambda: page.arm(1),
                    lambda: page.publish(0, 0, 0, 0, 0, 0)):
        with pytest.raises(errors.LogClosedError):
            refused()


def test_the_file_is_a_page_and_stays_one(tmp_path):
    LivePage(tmp_path).close()
    path = tmp_path / live.FILE_NAME
    assert path.stat().st_size == 4096
    assert path.stat().st_mode & 0o777 == 0o644
    # A reset gives the page content of its own, whatever it held before; an attached view stays attached.
    for damage in (b"", b"x", b"\xff" * 4096, b"\xff" * 5000):
        path.write_bytes(damage)
        page = LivePage(tmp_path)
        page.publish(0, 1, 1, 2, 0, 5)
        page.end_truncation()
        view = LiveView(tmp_path)
        assert limits(view) == (0, 1, 1, 2, 0, 5)
        assert path.stat().st_size == 4096
        page.close()


def test_a_second_owner_is_refused(tmp_path, owner):
    with pytest.raises(errors.LogLockedError):
        LivePage(tmp_path)
    owner.end()
    page = LivePage(tmp_path)
    with pytest.raises(errors.LogLockedError):
        LivePage(tmp_path)
    page.close()


def descriptors_under(directory: Path) -> list[str]:
    found = []
    for each in Path("/proc/self/fd").iterdir():
        try:
            found.append(os.readlink(each))
        except FileNotFoundError:      # the descriptor of the listing itself
            continue
    return [name for name in found if name.startswith(str(directory))]


# The behaviour of this directory's file system, determined in another way than the page does.
def lock_outlives_descriptor(path: Path) -> bool:
    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    holder = subprocess.Popen(
        [sys.executable, "-c", """
import ctypes, fcntl, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 4096)
fcntl.fcntl(fd, fcntl.F_OFD_SETLK, bytes.fromhex(sys.argv[2]))
assert libc.mmap(None, 4096, 1, 1, fd, 0) not in (None, ctypes.c_void_p(-1).value)
os.close(fd)
print("mapped", flush=True)
sys.stdin.read()
""", str(path), whole.hex()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None and holder.stdout.readline() == "mapped\n"
        with path.open("r+b") as file:
            answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, whole)
    return struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK


def test_a_page_keeps_a_descriptor_only_where_a_mapping_does_not_keep_the_lock(tmp_path):
    needed = [] if lock_outlives_descriptor(tmp_path / "tried") else [str(tmp_path / live.FILE_NAME)]
    page = LivePage(tmp_path)
    assert descriptors_under(tmp_path) == needed
    with pytest.raises(errors.LogLockedError, match=r"kraft\.live: another process owns this log"):
        LivePage(tmp_path)
    page.close()
    assert descriptors_under(tmp_path) == []
    LivePage(tmp_path).close()


# An overlay maps a file of the file system below. Its own file, and the lock on that, end with the descriptor.
OVERLAY = """
cd {base} && mkdir lower upper work merged
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged || exit 77
cd {root} && exec {python} -c '
import os, sys
from kraft_native.base import errors
from kraft_native.log.live import LivePage
page = LivePage(sys.argv[1])
names = [os.readlink(f"/proc/self/fd/{{each}}") for each in os.listdir("/proc/self/fd")
         if os.path.exists(f"/proc/self/fd/{{each}}")]
assert any(name.endswith("kraft.live") for name in names), names
try:
    LivePage(sys.argv[1])
except errors.LogLockedError:
    print("refused")
' {base}/merged
"""


def test_on_an_overlay_the_lock_holds_too(tmp_path):
    script = OVERLAY.format(base=tmp_path, root=ROOT, python=sys.executable)
    try:
        done = subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", script], text=True,
                              capture_output=True, timeout=SOON, check=False)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no overlay may be mounted here: {done.stderr.strip()}")
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr


def test_the_next_owner_takes_over_and_attached_views_notice(tmp_path, owner):
    view = LiveView(tmp_path)
    before = view.state()
    assert view.owner_alive
    owner.end()
    assert not view.owner_alive
    assert view.state() == before  # the state that a dead owner published stays readable
    page = LivePage(tmp_path)
    state = view.state()
    assert view.owner_alive
    assert state["truncation_generation"] == before["truncation_generation"] + 1
    assert state["segments_generation"] > before["segments_generation"]
    page.publish(0, 7, 7, 8, 0, 50)
    page.end_truncation()
    assert limits(view) == (0, 7, 7, 8, 0, 50)
    page.close()


def test_an_owner_that_died_inside_a_write(tmp_path):
    page = LivePage(tmp_path)
    page.publish(1, 5, 4, 9, 3, 77)
    page.end_truncation()
    page.close()
    view = LiveView(tmp_path)
    content = bytearray((tmp_path / live.FILE_NAME).read_bytes())
    content[64] |= 1  # the sequence is odd
    with (tmp_path / live.FILE_NAME).open("r+b") as file:
        file.write(content)
    with pytest.raises(errors.StorageError, match="ended while it wrote"):
        view.state()
    page = LivePage(tmp_path)
    assert view.state()["truncation_generation"] % 2 == 1
    page.end_truncation()
    assert limits(view) == (1, 5, 4, 9, 3, 77)
    page.close()


def test_no_page_no_view(tmp_path):
    with pytest.raises(FileNotFoundError):
        LiveView(tmp_path)
    path = tmp_path / live.FILE_NAME
    for content in (b"", b"\0" * 4095, b"\0" * 4096):
        path.write_bytes(content)
        with pytest.raises(FileNotFoundError):
            LiveView(tmp_path)


@pytest.mark.parametrize("arguments", [(2, 1, 1, 1, 0, 0), (0, 1, 2, 2, 0, 0), (0, 3, 1, 2, 0, 0), (-1, 0, 0, 0, 0, 0),
                                       (0, 0, 0, 0, 0, -1)])
def test_limits_out_of_order_are_refused(tmp_path, arguments):
    page = LivePage(tmp_path)
    before = (tmp_path / live.FILE_NAME).read_bytes()
    with pytest.raises(errors.InvalidArgumentError):
        page.publish(*arguments)
    assert (tmp_path / live.FILE_NAME).read_bytes() == before
    page.close()


def test_armed_eventfds_are_written_once_when_a_limit_moves(tmp_path):
    page = LivePage(tmp_path)
    first, second = (os.eventfd(0, os.EFD_NONBLOCK) for _ in range(2))
    page.arm(first)
    page.arm(first)
    page.arm(second)
    page.disarm(second)
    page.disarm(second)
    page.publish(0, 0, 0, 5, 0, 50)  # the log end is not visible to any reader
    assert select.select([first, second], [], [], 0)[0] == []
    page.publish(0, 5, 5, 5, 0, 50)
    assert select.select([first, second], [], [], 0)[0] == [first]
    assert os.eventfd_read(first) == 1
    page.publish(0, 6, 6, 6, 0, 60)
    assert select.select([first, second], [], [], 0)[0] == []
    page.arm(second)
    page.close()
    assert os.eventfd_read(second) == 1
    os.close(first)
    os.close(second)


def test_a_page_has_room_for_so_many_eventfds(tmp_path):
    page = LivePage(tmp_path)
    for fd in range(10_000, 10_064):
        page.arm(fd)
    with pytest.raises(errors.InvalidArgumentError, match="64 eventfds"):
        page.arm(1)
    for fd in range(10_000, 10_064):
        page.disarm(fd)
    page.close()


def test_wait_is_woken_by_another_process(tmp_path, owner):
    view = LiveView(tmp_path)
    assert view.wait(4, 0)
    assert not view.wait(5, 0)
    assert view.wait(3, 0, committed=True)
    assert not view.wait(4, 0, committed=True)
    assert view.wait(5, 0.01) is False
    for offset in range(5, 205):
        owner.send(f"page.publish(1, {offset + 1}, {offset}, {offset + 1}, 0, 99)")
        assert view.wait(offset, SOON)
        assert owner.line() == "done"
    assert not view.wait(204, 0, committed=True)


def test_no_wake_up_is_lost(tmp_path):
    """Readers and owner answer each other alternately as fast as they can: one lost wake-up stops them all."""
    page = LivePage(tmp_path)
    page.publish(0, 0, 0, 0, 0, 0)
    page.end_truncation()
    code = """
view = live.LiveView(sys.argv[1])
for offset in range(int(sys.argv[2])):
    assert view.wait(offset, 20)
    say(offset)
"""
    rounds = 1000
    readers = [run(code, tmp_path, rounds) for _ in range(2)]
    for offset in range(rounds):
        page.publish(0, offset + 1, offset + 1, offset + 1, 0, 0)
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == f"{offset}\n"
    for reader in readers:
        reader.communicate(timeout=SOON)
        assert reader.returncode == 0
    page.close()


def test_wait_ends_when_the_owner_closes_or_dies(tmp_path, owner):
    view = LiveView(tmp_path)
    ended = []

    def wait() -> None:
        with pytest.raises(errors.LogClosedError, match="has ended"):
            view.wait(100, SOON)
        ended.append(True)

    for end in (lambda: owner.do("page.close()"), owner.end):
        waiting = threading.Thread(target=wait)
        waiting.start()
        end()
        waiting.join(SOON)
    assert ended == [True, True]


def test_wait_notices_an_unreported_death(tmp_path, owner):
    view = LiveView(tmp_path)
    killer = threading.Timer(0, owner.process.kill)
    killer.start()
    with pytest.raises(errors.LogClosedError):
        view.wait(100, SOON)
    killer.join()


def test_a_forked_child_does_not_keep_its_parent_alive(tmp_path):
    """The child has inherited the lock, but the process decides."""
    code = """
import os
page = live.LivePage(sys.argv[1])
page.end_truncation()
if os.fork() == 0:
    say("forked")
    sys.stdin.read()
    os._exit(0)
os.wait()
"""
    parent = run(code, tmp_path)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "forked\n"
    view = LiveView(tmp_path)
    assert view.owner_alive
    parent.kill()
    parent.wait()
    assert not view.owner_alive
    parent.communicate()


def test_closing_in_a_fork_leaves_the_owner_open(tmp_path, owner):
    owner.do("import os; child = os.fork() or (page.close(), os._exit(0)); assert os.waitpid(child, 0)[1] == 0")
    view = LiveView(tmp_path)
    assert view.owner_alive
    assert not view.state()["closed"]


def test_wait_lets_signals_through(tmp_path, owner):
    class RungError(Exception):
        pass

    def ring(*_: object) -> None:
        raise RungError

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(RungError):
            LiveView(tmp_path).wait(1000)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_reader_without_write_permission_waits_too(tmp_path, owner):
    with faults.fail_at(1, error=errno.EACCES, kinds=["open"]):
        view = LiveView(tmp_path)
    assert not view.writable
    assert not view.wait(5, 0.01)
    owner.send("page.publish(1, 6, 6, 6, 0, 99)")
    assert view.wait(5, SOON)
    assert owner.line() == "done"
    owner.end()
    with pytest.raises(errors.LogClosedError):
        view.wait(6, SOON)


def test_a_view_never_reads_a_torn_state(tmp_path):
    """The owner publishes as fast as it can; in every state read all limits belong together."""
    page = LivePage(tmp_path)
    page.publish(0, 0, 0, 0, 0, 0)
    page.end_truncation()
    code = """
view = live.LiveView(sys.argv[1])
say("ready")
distinct, last = 0, -1
while last < 10**6:
    s = view.state()
    n = s["log_start"]
    assert (n, n + 1, n + 2, n + 3, n + 4) == (s["log_start"], s["last_stable_offset"], s["high_watermark"],
                                               s["log_end"], s["active_bytes"]) or n == 0, s
    distinct += n != last
    last = n
say(distinct)
"""
    reader = run(code, tmp_path)
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    for n in range(1, 200_000):
        page.publish(n, n + 2, n + 1, n + 3, n, n + 4)
    page.publish(10**6, 10**6 + 2, 10**6 + 1, 10**6 + 3, 0, 10**6 + 4)
    assert int(reader.communicate(timeout=SOON)[0]) >= 1
    assert reader.returncode == 0
    page.close()


@pytest.mark.parametrize("kind", ["open", "write"])
def test_a_failed_call_leaves_nothing_behind(tmp_path, kind):
    with faults.fail_at(1, error=errno.ENOSPC, kinds=[kind]), pytest.raises(errors.StorageError) as caught:
        LivePage(tmp_path)
    assert caught.value.errno == errno.ENOSPC
    page = LivePage(tmp_path)
    page.end_truncation()
    page.close()
