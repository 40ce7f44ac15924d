"""Run Kafka's own integration tests on nodes of this checkout: `python -m tests.kafka_suite --heading faults`.

Prints, for each module, how many of the applicable methods pass, why the others fail, and each failure without a reason
in `known.txt`. Ends with 1 when there is such a failure.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from tests.golden import REPOSITORY
from tests.kafka_suite.results import compare, read_known, unexplained
from tests.kafka_suite.runner import MODULES, Suite

CLASS_SECONDS: Final = 600


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka_suite", description=__doc__)
    parser.add_argument("--module", action="append", choices=MODULES, help="only this one; may be given again")
    parser.add_argument("--heading", help="only the classes under this heading of the suite's public.txt")
    parser.add_argument("--class", dest="classes", action="append", metavar="NAME", help="only this class")
    parser.add_argument("--tests", help="regular expression of method names")
    parser.add_argument("--protocols", choices=("all", "classic"), default="all",
                        help="classic: tests that go through the group protocols in turn leave out KIP-848")
    parser.add_argument("--class-seconds", type=int, default=CLASS_SECONDS, metavar="NUMBER",
                        help=f"time for one class; more on a busy machine [{CLASS_SECONDS}]")
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build/kafka-suite",
                        help="for Kafka's jars and the nodes' data")
    parser.add_argument("--output", type=Path, help="results as JSON; classes that it has are not run again "
                        "[WORK/results.json, written from the start]")
    arguments = parser.parse_args()
    lacking = Suite.missing()
    if lacking is not None:
        print(f"skipped: {lacking}")
        return 0
    suite = Suite(Suite.default_home(), arguments.work.resolve())
    suite.work.mkdir(parents=True, exist_ok=True)
    output = arguments.output or suite.work / "results.json"
    if arguments.output is None:
        output.unlink(missing_ok=True)
    classes = [*(suite.heading(arguments.heading) if arguments.heading else []), *(arguments.classes or [])]
    suite.run(output.resolve(), modules=arguments.module or list(MODULES), classes=classes, tests=arguments.tests,
              protocols=arguments.protocols, class_seconds=arguments.class_seconds,
              kraft=Path(sys.executable).with_name("kraft"))
    modules = compare(suite.control(), json.loads(output.read_text())["classes"], suite.judge, arguments.tests or "")
    known = read_known(Path(__file__).with_name("known.txt"))
    unknown = 0
    for name, module in modules.items():
        print(f"{name}: {module.classes} classes, {module.applicable} applicable methods, {module.passed} passed")
        for cause, count in module.causes.most_common():
            print(f"    {count:4d} {cause}")
        for failure in unexplained(module.failures, known):
            unknown += 1
            print(f"    without a reason: {failure}")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
