"""Compare the answers of our node and Kafka's to the same requests: `python -m tests.compare --rows 0..99`.

Kafka rebalances a little earlier or later than we do. Among thousands of requests about groups, one answer may
therefore differ once.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from tests.compare import access
from tests.compare.node import both_nodes
from tests.compare.run import Comparison, comparable

EXAMPLES: Final = 2
"""Examples printed of each kind of difference."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compare", description=__doc__)
    parser.add_argument("--rows", default="0..49", help="seeds, the last one with them")
    parser.add_argument("--questions", type=int, default=60, help="in each row")
    parser.add_argument("--api", action="append", help="only of this one; may be given again")
    parser.add_argument("--trace", action="store_true", help="print every question and our answer")
    parser.add_argument("--access", action="store_true", help="compare permissions: every API, as many users")
    arguments = parser.parse_args()
    if arguments.access:
        return compare_access()
    first, last = map(int, arguments.rows.split(".."))
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as directory, both_nodes(Path(directory)) as (ours, theirs):
        comparison = Comparison(ours, theirs, arguments.api or comparable(ours, theirs), trace=arguments.trace)
        for seed in range(first, last + 1):
            for difference in comparison.row(seed, arguments.questions):
                kinds[difference.kind] += 1
                if kinds[difference.kind] <= EXAMPLES:
                    print(difference, flush=True)
    print(f"{comparison.requested} questions of {len(comparison.apis)} APIs; {sum(kinds.values())} differences of "
          f"{len(kinds)} kinds; {comparison.given_up} rows ended by a fault of Kafka's own")
    for kind, count in kinds.most_common():
        print(f"{count:5d} {kind}")
    return 1 if kinds else 0


def compare_access() -> int:
    """Send a request of every API with and without the ACLs that it needs; return 1 after a difference."""
    found = access.cases()
    with tempfile.TemporaryDirectory() as directory, access.both_secured(Path(directory), found) as (ours, theirs):
        count = 0
        for difference in access.compare(ours, theirs, found):
            print(difference, flush=True)
            count += 1
    print(f"{len(found)} cases of {len({case.sample.key for case in found})} APIs; {count} differences")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
