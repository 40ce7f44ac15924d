"""Take rules of the specifications out of the code and see their tests fail: `python -m tests.kip_mutants`.

Prints one line for each rule, and ends with 1 when the tests of one do not notice.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.kip_mutants.mutants import copied_tree, is_noticed, read_mutants


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kip_mutants", description=__doc__)
    parser.add_argument("--rule", default="", help="only rules with this text")
    arguments = parser.parse_args()
    chosen = [mutant for mutant in read_mutants() if arguments.rule in str(mutant)]
    unnoticed = 0
    with tempfile.TemporaryDirectory(prefix="kraft-kips-") as directory, copied_tree(Path(directory)) as tree:
        for mutant in chosen:
            noticed = is_noticed(mutant, tree)
            unnoticed += not noticed
            print(f"{'noticed ' if noticed else 'UNNOTICED'} {mutant}", flush=True)
    print(f"{len(chosen) - unnoticed} of {len(chosen)} noticed")
    return 1 if unnoticed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
