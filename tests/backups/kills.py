"""Backups and restores that are killed at any point, while clients write.

A killed backup does not exist, or is whole; a killed restore cannot be started, or is whole. The same command, run
again, finishes. What is restored in the end is what the backup holds, byte for byte.

`python -m tests.backups` is the long form: kills at random steps and at random moments, with a seed. The quick form is
`test_kills.py`.
"""

import multiprocessing
import os
import random
import shutil
import signal
import threading
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from kraft.backups import manifest as manifests
from kraft.backups import restore as restoring
from kraft.backups import restored_log, store
from kraft.backups.store import Directory
from kraft.backups.verify import verify
from kraft.cli.command import run
from kraft.client import Cluster
from kraft.client.producer import Producer
from kraft.client.transactional_producer import TransactionalProducer
from kraft.runtime.storage import formatting
from kraft_native.file import file_io
from tests.backups.source import LISTENERS, batch_of, differences

# Processes are forked from one that has imported everything and runs nothing.
PROCESSES: Final = multiprocessing.get_context("forkserver")
MODULES: Final = ["tests.backups.kills", "kraft.cli.backup"]
CHANGES: Final = ("write_atomic", "rename", "unlink", "sync_directory", "make_directory")
STEPS_FIRST: Final = 40
SECONDS_MAX: Final = 0.4
FORMATTED: Final = "meta.properties"


def run_until_step(arguments: list[str], step: int) -> None:
    """Run a command in this process, which kills itself just before its `step`-th change of a file; -1: never. Exits
    with the code of the command."""
    left = step
    lock = threading.Lock()

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*given: Any, **named: Any) -> Any:
            nonlocal left
            with lock:
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
            return function(*given, **named)
        return changed

    class Files:
        """`file_io` as the modules of backups see it."""

        def __getattr__(self, name: str) -> Any:
            found = getattr(file_io, name)
            return counted(found) if name in CHANGES else found

    if step >= 0:
        for module in (store, restoring, restored_log, formatting):
            module.file_io = Files()  # type: ignore[attr-defined]
        os.fsync = counted(os.fsync)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os._exit(run(arguments))


class Run:
    """Backups of one cluster in `top`, which are killed and repeated."""

    def __init__(self, bootstrap: str, top: Path, seed: int) -> None:
        self.bootstrap = bootstrap
        self.place = top / "backups"
        self.target = top / "restored"
        self.store = Directory(self.place)
        self.chance = random.Random(seed)
        self.kills = 0
        self.steps = {"create": STEPS_FIRST, "restore": STEPS_FIRST}
        """Estimate of the changes that a whole command makes."""

    def create(self, name: str) -> list[str]:
        """Create a backup, killed once or more before; return the faults."""
        arguments = ["backup", "create", str(self.place), "--name", name, "--bootstrap", self.bootstrap,
                     "--segment-mib", "1"]
        while self._killed("create", arguments):
            known = manifests.names(self.store)
            for each in manifests.load_all(self.store, known):
                if wrong := [fault.reason for fault in verify(self.store, each)]:
                    return wrong
            if name in known:          # killed after its end
                return []
        manifest = manifests.load(self.store, name)
        return [fault.reason for fault in verify(self.store, manifest)]

    def restore(self, name: str) -> list[str]:
        """Restore a backup to an empty directory, killed once or more before; return the faults."""
        manifest = manifests.load(self.store, name)
        shutil.rmtree(self.target, ignore_errors=True)
        arguments = ["backup", "restore", str(self.place), name, "--data", str(self.target), *LISTENERS]
        while self._killed("restore", arguments):
            if (self.target / FORMATTED).exists() and (wrong := differences(self.store, manifest, self.target)):
                return ["a node may start on it, but:", *wrong]
        return differences(self.store, manifest, self.target)

    def _killed(self, what: str, arguments: list[str]) -> bool:
        """Run the command with a kill at a random step or a random moment, or without one every third time. Return
        whether it was killed. Raises `AssertionError` when it ends with an error."""
        way = self.chance.randrange(3)
        step = self.chance.randrange(self.steps[what]) if way == 0 else -1
        process = PROCESSES.Process(target=run_until_step, args=(arguments, step))
        process.start()
        process.join(self.chance.uniform(0, SECONDS_MAX) if way == 1 else None)
        if process.is_alive():
            process.kill()
            process.join()
        return self._ended(process, what, step)

    def _ended(self, process: BaseProcess, what: str, step: int) -> bool:
        code = process.exitcode
        process.close()
        if code == -signal.SIGKILL:
            self.kills += 1
            if step >= self.steps[what] - STEPS_FIRST // 4:
                self.steps[what] += STEPS_FIRST
            return True
        assert code == 0, f"kraft backup {what} ended with {code}"
        return False


class Writers(threading.Thread):
    """Clients that write records and transactions until `stop`."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        super().__init__()
        self._address = bootstrap
        self._chance = random.Random(seed)
        self._stopped = threading.Event()

    def run(self) -> None:
        sent = 0
        with Cluster(self._address) as cluster:
            producer = Producer(cluster)
            transactions = TransactionalProducer(cluster, "kills")
            while not self._stopped.wait(0.005):
                count = self._chance.randint(1, 200)
                producer.send({("orders", self._chance.randint(0, 1)): batch_of(sent, count)})
                for topic in ("from", "to"):
                    transactions.send(topic, 0, [(None, b"%d" % sent)])
                (transactions.commit if self._chance.random() < 0.8 else transactions.abort)()
                sent += count

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def torn(committed: dict[str, list[bytes | None]]) -> list[str]:
    """Return whether a transaction is in one of its two topics only."""
    first, second = committed["from"], committed["to"]
    if first == second:
        return []
    differing = sorted(map(repr, {*first} ^ {*second}))
    return [f"{len(first)} values in one topic, {len(second)} in the other; they differ in {differing[:5]}"]
