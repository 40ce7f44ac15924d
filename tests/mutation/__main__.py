"""Take code out of the sources, one place at a time, and see the tests fail: `python -m tests.mutation kips`.

The tests run first with nothing taken out, and must pass. Then one line is printed for each mutant. Ends with 1 when
the tests of one do not notice, or do not run to their end.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.mutation.kit import Mutant, copied_tree, failing_test, noticed_by
from tests.mutation.tables import TABLES
from tests.mutation.workspace import ended_by_signals, workspace


def failing_before(mutants: Iterable[Mutant], tree: Path) -> str | None:
    """Return the first test that fails with nothing taken out. Directories of tests have processes of their own, as in
    `make test`."""
    by_directory: dict[str, dict[str, None]] = {}
    for test in (test for mutant in mutants for test in mutant.tests):
        by_directory.setdefault(test.split("/")[1], {})[test] = None
    return next((failed for tests in by_directory.values() if (failed := failing_test(list(tests), tree))), None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("table", choices=TABLES, help="which mutants")
    parser.add_argument("--only", default="", help="only those whose name has this text")
    arguments = parser.parse_args()
    chosen = [mutant for mutant in TABLES[arguments.table]() if arguments.only in str(mutant)]
    unnoticed = 0
    with ended_by_signals(), workspace() as directory, copied_tree(directory) as tree:
        failed = failing_before(chosen, tree)
        if failed is not None:
            print(f"fails with nothing taken out: {failed}")
            return 1
        for mutant in chosen:
            try:
                test = noticed_by(mutant, tree)
                line = f"UNNOTICED {mutant}" if test is None else f"noticed   {mutant}: {test}"
            except RuntimeError as error:
                test, line = None, f"NO PROOF  {mutant}: {error}"
            unnoticed += test is None
            print(line, flush=True)
    print(f"{len(chosen) - unnoticed} of {len(chosen)} noticed")
    return 1 if unnoticed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
