"""Run targets. An input that breaks one is kept, with the seed and the number that reproduce it."""

import random
import time
from dataclasses import dataclass
from pathlib import Path

from kraft_native.base.errors import KraftError
from tests.fuzz.targets import TARGETS


@dataclass
class Outcome:
    """Result of one target with its inputs."""

    target: str
    inputs: int = 0
    answered: int = 0
    broken: str = ""

    def __str__(self) -> str:
        return (f"{self.target:20} {self.inputs:9} inputs, {self.answered:9} answered, "
                f"{self.inputs - self.answered:9} refused{f', BROKEN: {self.broken}' if self.broken else ''}")


def input_of(name: str, seed: int, number: int, good: list[bytes]) -> bytes:
    """Return input `number` of a run, which depends on nothing else."""
    return TARGETS[name].input(random.Random(f"{name} {seed} {number}"), good)


def fuzz(name: str, seed: int, *, inputs_max: int, seconds: float, first: int = 0, keep: Path | None = None) -> Outcome:
    """Run until `inputs_max` inputs or `seconds` are used up, or an input breaks the target: any exception other
    than a refusal by the engine. The input about to be tried lies in `keep`, in case the process ends with it."""
    target = TARGETS[name]
    good = target.corpus(random.Random(f"{name} {seed}"))
    outcome = Outcome(name)
    deadline = time.monotonic() + seconds
    for number in range(first, first + inputs_max):
        if time.monotonic() > deadline:
            break
        data = input_of(name, seed, number, good)
        if keep is not None:
            keep.write_bytes(data)
        outcome.inputs += 1
        try:
            target.call(data)
            outcome.answered += 1
        except KraftError:
            pass
        except Exception as error:  # noqa: BLE001 - any other exception is a finding
            outcome.broken = f"{type(error).__name__}: {error} (--target {name} --seed {seed} --first {number})"
            break
    if keep is not None and not outcome.broken:
        keep.unlink(missing_ok=True)
    return outcome
