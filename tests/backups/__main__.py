"""`make backup-kills`: backups and restores of a node under load are killed until the given number of kills is reached.

Each backup is restored, and each restored node is started: no transaction may be in one of its topics only.
"""

import argparse
import tempfile
from pathlib import Path

from kraft.client import Cluster
from kraft.runtime.server_node import ServerNode
from tests.backups.kills import MODULES, PROCESSES, Run, Writers, torn
from tests.backups.source import Source, visible
from tests.runtime.nodes import config, with_node


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    PROCESSES.set_forkserver_preload(MODULES)
    with tempfile.TemporaryDirectory(prefix="kraft-kills-", ignore_cleanup_errors=True) as top:
        return with_node(config(Path(top) / "source"), lambda cluster, node: _run(cluster, node, Path(top), options))


def _committed(cluster: Cluster, _node: ServerNode) -> dict[str, list[bytes | None]]:
    return {each: visible(cluster, (each, 0)) for each in ("from", "to")}


def _run(cluster: Cluster, node: ServerNode, top: Path, options: argparse.Namespace) -> int:
    bootstrap = f"127.0.0.1:{node.listeners['PLAINTEXT'].port}"
    Source(cluster, options.seed).create()
    run = Run(bootstrap, top, options.seed)
    writers = Writers(bootstrap, options.seed)
    writers.start()
    number = 0
    try:
        while run.kills < options.kills:
            number += 1
            name = f"b{number}"
            wrong = run.create(name) or run.restore(name) or torn(with_node(config(run.target), _committed))
            print(f"seed {options.seed}, backup {number}: {run.kills} kills, {wrong[0] if wrong else 'equal'}",
                  flush=True)
            if wrong:
                return 1
    finally:
        writers.stop()
    print(f"{number} backups and restores, {run.kills} kills: 0 differ")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
