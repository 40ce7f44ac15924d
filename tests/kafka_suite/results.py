"""Results of Kafka's own tests on our nodes beside those of Kafka: counts, and failures without a reason."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

MISSING: Final = "missing: "
"""Start of the cause of a method that waits for a feature of Kafka."""

LACKING: Final = frozenset({"share groups", "streams groups", "tiered storage"})
"""Features that this version does not have, as causes name them. A method that waits for another needs a reason."""

Judge = Callable[[str, Mapping[str, Any]], tuple[str, str]]
"""Class name and result of one method -> status and cause; see `runner.judge`."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One method that Kafka passes and our nodes do not."""

    class_name: str
    method: str
    cause: str
    error: str

    def __str__(self) -> str:
        return f"{self.class_name}.{self.method}: {self.cause}: {self.error}"


@dataclass(slots=True)
class Module:
    """Counts of one module, over the methods that Kafka passes."""

    classes: int = 0
    applicable: int = 0
    passed: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)


def read_known(path: Path) -> dict[str, list[tuple[re.Pattern[str], str]]]:
    """Read the failures that have a reason: `Class method-pattern: reason` on each line.

    Raises ValueError for a line that is not of that form or has no reason.
    """
    known: dict[str, list[tuple[re.Pattern[str], str]]] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = re.fullmatch(r"(\S+) (\S+): (\S.*)", line)
        if found is None:
            raise ValueError(f"{path.name}:{number}: not of the form 'Class method-pattern: reason': {line!r}")
        known.setdefault(found[1], []).append((re.compile(found[2]), found[3]))
    return known


def named_cause(result: Mapping[str, Any]) -> str | None:
    """Return the cause that the error of a method names, where the suite's runner would guess by the class's name."""
    goes_through_protocols = "Consumer with protocol CONSUMER" in (result.get("error") or "")
    return f"{MISSING}KIP-848 group protocol" if goes_through_protocols else None


def own_result(tests: Mapping[str, Mapping[str, Any]], uid: str, name: str) -> Mapping[str, Any]:
    """Result of the method `uid`; that of its container when that failed before; else a time-out."""
    if uid in tests:
        return tests[uid]
    container = next((result for key, result in tests.items() if uid.startswith(key)), None)
    return container or {"status": "timeout", "name": name, "error": "not reached"}


def compare(control: Mapping[str, Any], ours: Mapping[str, Any], judge: Judge, tests: str = "") -> dict[str, Module]:
    """Count the methods of every class that both results have, those whose name matches `tests` (a regular expression).

    A method that Kafka does not pass is left out.
    """
    modules: dict[str, Module] = {}
    for class_name in sorted(set(control) & set(ours)):
        module = modules.setdefault(control[class_name]["module"], Module())
        module.classes += 1
        for uid, theirs in control[class_name]["tests"].items():
            if theirs["status"] != "pass" or not re.search(tests, theirs["name"]):
                continue
            result = own_result(ours[class_name]["tests"], uid, theirs["name"])
            status, cause = judge(class_name, {**result, "name": theirs["name"]})
            if status == "not-applicable":
                continue
            module.applicable += 1
            if status == "pass":
                module.passed += 1
                continue
            module.causes[cause] += 1
            error = (result.get("error") or "").partition("\n")[0][:200]
            module.failures.append(Failure(class_name.rpartition(".")[2], theirs["name"], cause, error))
    return modules


def unexplained(failures: list[Failure], known: Mapping[str, list[tuple[re.Pattern[str], str]]]) -> Iterator[Failure]:
    """Yield the failures that neither wait for a feature in `LACKING` nor have a reason in `known`."""
    for failure in failures:
        if failure.cause.startswith(MISSING) and failure.cause.removeprefix(MISSING) in LACKING:
            continue
        if not any(pattern.match(failure.method) for pattern, _ in known.get(failure.class_name, [])):
            yield failure
