"""Events and messages of the flusher's thread after a flush."""

import errno
import os
import select
import socket

import pytest

from kraft_native.base import errors
from tests.native.log.test_flusher import SOON, files, gate, handles_of, no_threads_left  # noqa: F401


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    theirs.settimeout(SOON)
    with ours, theirs:
        yield ours, theirs


def test_a_message_leaves_when_its_end_is_durable(files, gate, pair):  # noqa: F811
    ours, theirs = pair
    thread, [handle] = handles_of()
    with thread:
        handle.submit(files[0], 3, 1)
        gate.arrived()
        handle.submit(files[0], 7, 1)
        assert handle.send(7, ours.fileno(), b"durable")
        gate.let_go()
        gate.arrived()
        assert handle.durable == 3
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(100)
        theirs.settimeout(SOON)
        gate.let_go()
        assert theirs.recv(100) == b"durable"
        assert handle.wait(7, SOON)
        assert (handle.take_back(), handle.take_back()) == (True, False)
        assert not handle.send(7, ours.fileno(), b"too late"), "it is durable already"
        assert not handle.take_back()
        with pytest.raises(OSError, match="too long"):
            handle.send(8, ours.fileno(), b"x" * 513)
        del handle


@pytest.mark.parametrize("fails", [False, True])
def test_events_report_requested_offsets_and_failures(files, gate, fails):  # noqa: F811
    thread, [handle] = handles_of()
    with thread:
        assert handle.notify_from(7)
        own, common = handle.eventfd, thread.eventfd
        handle.submit(files[0], 3, 1)
        gate.arrived()
        handle.submit(files[0], 7, 1)
        gate.let_go(-errno.EIO if fails else 0)
        if not fails:
            gate.arrived()             # the first flush has ended, with all its events
            assert (handle.durable, select.select([own, common], [], [], 0)[0]) == (3, [])
            assert handle.notify_from(4)
            assert not handle.notify_from(3), "that is durable already"
            assert select.select([own, common], [], [], 0)[0] == []
            gate.let_go()
        for ready in (own, common):
            assert select.select([ready], [], [], SOON)[0] == [ready]
            assert os.eventfd_read(ready) == 1
        if fails:
            with pytest.raises(errors.StorageError):
                handle.notify_from(9)


@pytest.mark.parametrize("drop", ["take_back", "reset", "fail", "replace"])
def test_a_message_that_is_dropped_never_leaves(files, gate, pair, drop):  # noqa: F811
    ours, theirs = pair
    thread, [handle] = handles_of()
    with thread:
        handle.submit(files[0], 7, 1)
        gate.arrived()
        assert handle.send(7, ours.fileno(), b"never")
        if drop == "take_back":
            assert not handle.take_back()
        elif drop == "reset":
            handle.reset(5)
        elif drop == "replace":
            assert handle.send(7, ours.fileno(), b"instead")
        gate.let_go(-errno.EIO if drop == "fail" else 0)
        thread.close()                 # everything that was to happen has happened
        assert handle.take_back() == (drop == "replace")
    ours.shutdown(socket.SHUT_WR)
    assert theirs.recv(100) == (b"instead" if drop == "replace" else b"")
