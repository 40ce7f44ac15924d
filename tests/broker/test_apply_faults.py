"""Faults of committed metadata: reported once, until they are repaired."""

from kraft.broker.apply_faults import LISTED_MAX, ApplyFaults


def fail() -> None:
    raise LookupError("nothing of that name")


def test_a_fault_is_reported_once_and_its_repair_too() -> None:
    received: list[tuple[str, ...]] = []
    faults = ApplyFaults(lambda subject, why, error: received.append((subject, why, type(error).__name__)),
                         lambda subject: received.append((subject,)))
    assert not faults.attempt("client quotas", fail)
    assert not faults.attempt("client quotas", fail)
    faults.note("topic t", ["retention.ms: 'x'", "segment.ms: 'y'"])
    assert faults.texts() == ["client quotas: LookupError: nothing of that name",
                              "topic t: retention.ms: 'x'; segment.ms: 'y'"]
    assert faults.attempt("client quotas", lambda: None)
    faults.note("topic u", ())
    faults.forget("topic t")
    assert received == [("client quotas", "LookupError: nothing of that name", "LookupError"),
                        ("topic t", "retention.ms: 'x'; segment.ms: 'y'", "NoneType"), ("client quotas",)]
    assert len(faults) == 0


def test_many_faults_are_counted_and_the_first_are_listed() -> None:
    faults = ApplyFaults()
    for number in range(LISTED_MAX + 5):
        faults.note(f"topic {number}", ["x"])
    assert (len(faults), len(faults.texts())) == (LISTED_MAX + 5, LISTED_MAX)
