"""Short, repeatable run of every fuzz target; `make fuzz` runs them longer."""

import random

import pytest

from tests.fuzz import run
from tests.fuzz.targets import TARGETS, Target


@pytest.mark.parametrize("name", TARGETS)
def test_good_input_is_answered(name: str) -> None:
    for data in TARGETS[name].corpus(random.Random(3)):
        TARGETS[name].call(data)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_input_is_answered_or_refused(name: str) -> None:
    outcome = run.fuzz(name, 1, inputs_max=400, seconds=60)
    assert not outcome.broken, outcome
    assert outcome.inputs == 400
    # Both must occur; otherwise there is too little or too much damage to prove anything. (The audit of a file refuses
    # nothing.)
    assert outcome.answered > 0
    assert outcome.answered < outcome.inputs or name == "audit"


def test_inputs_depend_on_seed_and_number_only() -> None:
    good = TARGETS["records"].corpus(random.Random(1))
    assert run.input_of("records", 5, 17, good) == run.input_of("records", 5, 17, good)
    assert len({run.input_of("records", 5, number, good) for number in range(50)}) > 25


def test_a_broken_target_is_found_and_its_input_kept(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    def call(data: bytes) -> None:
        if b"\xff\xff" in data:
            raise IndexError("outside")

    monkeypatch.setitem(TARGETS, "records", Target(lambda _: [b"abcdefgh"], call))
    outcome = run.fuzz("records", 1, inputs_max=5_000, seconds=60, keep=tmp_path / "input")
    assert "IndexError: outside (--target records --seed 1 --first" in outcome.broken
    assert b"\xff\xff" in (tmp_path / "input").read_bytes()
