"""Controllers write snapshots one after the other, the active one last (KIP-631, "Snapshot Implementation")."""

from kraft.controller.snapshot_schedule import SLOT_MS, UNRESPONSIVE_MS, Backlog, Limits, SnapshotSchedule

USUAL = Limits(100, 1_000)
STRAINED = Limits(400, 4_000)


class Log:
    """Offsets are bytes, and the log's end is an offset; each is a millisecond old for each 10."""

    end = 0

    def behind(self, end_offset: int, _now_ms: int) -> Backlog:
        return Backlog(self.end - end_offset, 10 * (self.end - end_offset))


def schedule(end: int) -> SnapshotSchedule:
    log = Log()
    log.end = end
    return SnapshotSchedule(USUAL, STRAINED, log.behind)


def test_limits() -> None:
    assert USUAL.are_reached(Backlog(100, 0))
    assert USUAL.are_reached(Backlog(0, 1_000))
    assert not USUAL.are_reached(Backlog(99, 999))
    assert not Limits(100, 0).are_reached(Backlog(99, 1 << 40))


def test_one_at_a_time() -> None:
    both = schedule(end=500)
    assert both.heartbeat(2, 0, now_ms=0, strained=False)
    assert not both.heartbeat(3, 0, now_ms=1, strained=False), "another writes"
    assert both.heartbeat(2, 0, now_ms=2, strained=False), "repeated until it has written"
    assert not both.heartbeat(2, 450, now_ms=3, strained=False)
    assert both.heartbeat(3, 0, now_ms=4, strained=False)


def test_a_controller_that_does_not_finish_loses_its_slot() -> None:
    both = schedule(end=500)
    assert both.heartbeat(2, 0, now_ms=0, strained=False)
    assert not both.heartbeat(3, 0, now_ms=SLOT_MS - 1, strained=False)
    assert both.heartbeat(3, 0, now_ms=SLOT_MS, strained=False)
    assert not both.heartbeat(2, 0, now_ms=SLOT_MS + 1, strained=False)


def test_nothing_to_do() -> None:
    both = schedule(end=500)
    assert not both.heartbeat(2, 450, now_ms=0, strained=False)
    assert not both.is_own(450, now_ms=1, strained=False)


def test_the_active_controller_comes_last() -> None:
    both = schedule(end=500)
    assert both.is_own(0, now_ms=0, strained=False), "no other controller is known"
    assert both.heartbeat(2, 0, now_ms=1, strained=False)
    assert not both.is_own(0, now_ms=2, strained=False), "2 writes"
    assert not both.heartbeat(3, 100, now_ms=3, strained=False)
    assert not both.heartbeat(2, 460, now_ms=4, strained=False)
    assert not both.is_own(0, now_ms=5, strained=False), "3 should"
    assert both.is_own(0, now_ms=3 + UNRESPONSIVE_MS + 1, strained=False), "3 is offline"


def test_less_often_while_others_have_fallen_behind() -> None:
    both = schedule(end=300)
    assert not both.heartbeat(2, 0, now_ms=0, strained=True)
    assert not both.is_own(0, now_ms=1, strained=True)
    assert both.heartbeat(2, 0, now_ms=2, strained=False)


def test_a_controller_that_cannot_write_does_not_block_the_active_one() -> None:
    """Its disk may be full. It gets its next chance after a while; meanwhile the active controller writes."""
    one = schedule(end=500)
    assert one.heartbeat(2, 0, now_ms=0, strained=False)
    assert not one.is_own(0, now_ms=SLOT_MS - 1, strained=False)
    assert not one.heartbeat(2, 0, now_ms=SLOT_MS, strained=False)
    assert one.is_own(0, now_ms=SLOT_MS + 1, strained=False)
    assert one.heartbeat(2, 0, now_ms=2 * SLOT_MS, strained=False)
    assert not one.is_own(0, now_ms=2 * SLOT_MS + 1, strained=False)
