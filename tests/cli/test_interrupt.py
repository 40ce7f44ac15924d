"""Ctrl-C at the worst moments: no output and no record is partial."""

import io
import signal
import sys
from types import SimpleNamespace

import pytest

from kraft.cli.consume import Reader
from kraft.cli.consuming import Places
from kraft.cli.interrupt import Interrupt
from kraft.cli.produce import Writer, _produce_lines
from kraft.cli.record_filter import Filter
from kraft.cli.record_lines import LineFormat

PLAIN = LineFormat(as_json=False, key_separator=None, null=None)


class Source:
    """A consumer during whose first batch Ctrl-C is pressed."""

    def __init__(self) -> None:
        self.stored: list[int] = []

    def consume(self, _count, _seconds):
        signal.raise_signal(signal.SIGINT)
        return [SimpleNamespace(error=lambda: None, topic=lambda: "t", partition=lambda: 0, offset=lambda: 7,
                                timestamp=lambda: (1, 0), key=lambda: None, value=lambda: b"seven",
                                headers=lambda: None)]

    def store_offsets(self, message):
        self.stored.append(message.offset())


class Target:
    """A producer during whose first record Ctrl-C is pressed."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.flushes = 0

    def __len__(self):
        return len(self.values)

    def produce(self, _topic, value, *_rest, **_named):
        signal.raise_signal(signal.SIGINT)
        self.values.append(value)

    def poll(self, _seconds):
        return 0

    def flush(self, _seconds):
        self.flushes += 1
        if self.flushes == 2:
            signal.raise_signal(signal.SIGINT)
        return len(self.values)


def test_medians_are_printed_and_stored(monkeypatch):
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    source = Source()
    with Interrupt() as interrupt, pytest.raises(KeyboardInterrupt):
        places = Places(source, 30.0, until_end=False)
        places.subscribe("group", [("t", 0)])
        headers = SimpleNamespace(of=lambda _message: ())
        Reader(source, PLAIN, places, headers, Filter.of(None, ())).run(None, interrupt)
    assert (out.getvalue(), source.stored) == (b"seven\n", [7])


def test_a_record_is_handed_over_before_the_end_and_a_second_ctrl_c_does_not_wait(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"one\ntwo\n")))
    target = Target()
    writer = Writer(target, "t", -1)
    with Interrupt() as interrupt:
        with pytest.raises(KeyboardInterrupt):
            _produce_lines(writer, PLAIN, [], interrupt)
        assert target.values == [b"one"]
        assert writer.flush(interrupt) == 1
    assert target.flushes == 2


def test_a_wait_is_interrupted_at_once_and_the_handler_is_restored():
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        interrupt.allow(True)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()
    assert signal.getsignal(signal.SIGINT) is before
