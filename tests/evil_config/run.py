"""The run: set and delete on live nodes, then restart with the accepted values, and count the nodes that stopped."""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from kraft.client.configs import KINDS
from kraft.client.connection import ConnectionFailedError
from kraft.client.fetcher import AT_ONCE, fetch_request
from kraft.client.producer import produce_request
from kraft.client.refusals import RefusedError
from kraft.client.topics import create_topic
from kraft.local.cluster import LocalCluster
from kraft.local.errors import LocalNodeError
from kraft.local.launcher import Launcher
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.protocol.messages import alter_client_quotas_request as quotas
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft_native.base.errors import KraftError
from kraft_native.batch.batch import walk
from kraft_native.batch.records import BatchBuilder, records
from tests.evil_config.values import (
    ALL_BROKERS,
    LOCKING_OUT,
    QUOTA_VALUES,
    TOPIC,
    Case,
    QuotaCase,
    cases,
    drawn,
    quota_cases,
)

SERVED_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 0.05
SET: Final = 0
DELETE: Final = 1
TOGETHER: Final = 25
"""Number of settings that are in force together over a restart."""
EXPECTED: Final = (ErrorCode.NONE, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
UNDELETABLE: Final = ("broker", ALL_BROKERS, "min.insync.replicas")
"""Setting that cannot be deleted: with eligible leader replicas the cluster always has one."""
FAULT: Final = "a fault of its own"


@dataclass
class Report:
    """Result of a run. `wrong` has a line for everything that must not happen."""

    nodes: int
    seed: int
    settings: int = 0
    values: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    stopped: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        answers = ", ".join(f"{count:,} {name}" for name, count in self.answers.most_common())
        first = (f"{self.nodes} nodes, seed {self.seed}: {self.settings:,} settings, {self.values:,} settings x values "
                 f"({answers}), {self.restarts} restarts, {self.seconds:.0f} s; nodes stopped: {self.stopped}")
        return "\n".join((first, *self.wrong))


class Attacker:
    """One run on a cluster that serves. Connections that were opened first stay open. Over them, a value that keeps
    every client from connecting is set and deleted."""

    def __init__(self, cluster: LocalCluster, report: Report, random: Random) -> None:
        self.cluster = cluster
        self.report = report
        self.random = random
        self.client = cluster.client()
        self.accepted: list[tuple[Case, str]] = []

    def settings(self, count: int | None) -> None:
        """Set every setting to hostile values, one after the other, and delete it."""
        found = cases(list(self.cluster.brokers))
        self.random.shuffle(found)
        self.report.settings += len(found)
        for case in found:
            taken = [text for text in drawn(case, self.random, count) if self._set(case, text)]
            self.accepted += ((case, text) for text in taken)
            if taken:
                self._delete(case)
            self._check_alive(str(case))

    def quotas(self, count: int | None) -> None:
        found = quota_cases()
        self.random.shuffle(found)
        self.report.settings += len(found)
        for case in found:
            values = list(QUOTA_VALUES)
            self.random.shuffle(values)
            taken = [value for value in values[:count] if self._set_quota(case, value, remove=False)]
            if taken:
                self._set_quota(case, 0.0, remove=True)
            self._check_alive(f"quota {case}")

    def together(self, rounds: int) -> None:
        """Put many accepted values in force at once, restart every node with them, and delete them."""
        usable = [(case, text) for case, text in self.accepted if case.name not in LOCKING_OUT]
        for number in range(rounds):
            chosen = self.random.sample(usable, min(TOGETHER, len(usable)))
            for case, text in chosen:
                self._set(case, text)
            self._restart()
            self._check_alive(f"restart {number}")
            for case, _ in chosen:
                self._delete(case)
            self.served(f"round {number} of {len(chosen)} settings")

    def served(self, after: str) -> None:
        """Check that every node runs, and that the topic accepts and returns records."""
        self._check_alive(after)
        value = b"%d" % self.random.getrandbits(60)
        deadline = time.monotonic() + SERVED_SECONDS
        why = ""
        while time.monotonic() < deadline:
            try:
                if (why := self._round_trip(value)) == "":
                    return
            except (KraftError, OSError) as error:
                why = str(error)
                self._reconnect()
            time.sleep(PAUSE_SECONDS)
        self._wrong(f"not served after {after}: {why}")

    def close(self) -> None:
        self.client.close()

    # --- steps

    def _reconnect(self) -> None:
        self.client.close()
        self.client = self.cluster.client()

    def _restart(self) -> None:
        for node in self.cluster.brokers.values():
            try:
                node.kill_and_start()
            except LocalNodeError as error:
                self._wrong(f"{node} does not start again: {error}")
                continue
            self.report.restarts += 1
        self._reconnect()

    def _set(self, case: Case, text: str) -> bool:
        self.report.values += 1
        return self._alter(case, SET, text)

    def _delete(self, case: Case) -> None:
        if case[:3] == UNDELETABLE:
            self._alter(case, SET, "1")
        elif not self._alter(case, DELETE, None):
            self._wrong(f"{case} cannot be deleted")

    def _alter(self, case: Case, operation: int, text: str | None) -> bool:
        request = IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(
            resource_type=KINDS[case.kind], resource_name=case.resource,
            configs=[AlterableConfig(name=case.name, config_operation=operation, value=text)])])
        shown = f"{case} = {(text or '')[:60]!r}"
        try:
            target = self.client.node(int(case.resource)) if case.kind == "broker" and case.resource \
                else self.client.any()
            answer = target.send(request, IncrementalAlterConfigsResponse).responses[0]
        except (ConnectionFailedError, RefusedError, OSError) as error:
            self._wrong(f"{shown}: no answer: {error}")
            self._check_alive(shown)
            self._reconnect()
            return False
        return self._counted(shown, answer.error_code, answer.error_message)

    def _set_quota(self, case: QuotaCase, value: float, *, remove: bool) -> bool:
        self.report.values += not remove
        request = quotas.AlterClientQuotasRequest(entries=[quotas.EntryData(
            entity=[quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in case.entity],
            ops=[quotas.OpData(key=case.key, value=value, remove=remove)])])
        shown = f"quota {case.entity} {case.key[:40]} = {value}"
        try:
            answer = self.client.any().send(request, AlterClientQuotasResponse).entries[0]
        except (ConnectionFailedError, RefusedError, OSError) as error:
            self._wrong(f"{shown}: no answer: {error}")
            self._reconnect()
            return False
        return self._counted(shown, answer.error_code, answer.error_message)

    def _counted(self, shown: str, code: int, message: str | None) -> bool:
        name = name_of(code)
        self.report.answers["accepted" if code == 0 else name] += 1
        if code not in EXPECTED:
            self._wrong(f"{shown}: {name}: {message}")
        return code == 0

    def _round_trip(self, value: bytes) -> str:
        """Return why the topic does not serve; empty when it does."""
        builder = BatchBuilder()
        builder.append(value, b"key", int(time.time() * 1000))
        leader = self.client.leader(TOPIC, 0)
        produced = leader.send(produce_request({(TOPIC, 0): builder.build()}, -1, 5000), ProduceResponse,
                               version=9).responses[0].partition_responses[0]
        if produced.error_code:
            return f"Produce: {name_of(produced.error_code)}: {produced.error_message}"
        fetched = leader.send(fetch_request(TOPIC, 0, produced.base_offset, AT_ONCE), FetchResponse,
                              version=11).responses[0].partitions[0]
        if fetched.error_code:
            return f"Fetch: {name_of(fetched.error_code)}"
        found = [record.value for batch in walk(fetched.records or b"") for record in records(batch)]
        return "" if value in found else f"Fetch gave {len(found)} records and not the one"

    # --- violations

    def _wrong(self, text: str) -> None:
        self.report.wrong.append(text)

    def _check_alive(self, after: str) -> None:
        for node in self.cluster.nodes.values():
            if not node.running or node.has_ended():
                self.report.stopped += 1
                self._wrong(f"{node} stopped after {after}:\n{node.log(30)}")
                node.start()
                self._reconnect()


def attack(directory: Path, seed: int, *, nodes: int, values: int | None, rounds: int,
           launcher: Launcher | None = None) -> Report:
    """Run on a new cluster of `nodes` nodes, each broker and controller. `values`: maximum number of values per
    setting; None: all."""
    report = Report(nodes, seed)
    began = time.monotonic()
    with LocalCluster(directory, brokers=nodes, controllers=0, launcher=launcher, log_level="error", settings={
            "num.partitions": "1", "default.replication.factor": str(nodes), "offsets.topic.num.partitions": "1",
            "log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "200"}) as cluster:
        cluster.start()
        attacker = Attacker(cluster, report, Random(seed))
        create_topic(attacker.client, TOPIC, 1, replication=nodes)
        attacker.served("the start")
        attacker.settings(values)
        attacker.quotas(values)
        attacker.served("all settings")
        attacker.together(rounds)
        attacker.close()
        for node in cluster.nodes.values():
            if FAULT in (log := node.log(100_000)):
                report.wrong.append(f"{node} found a fault of its own:\n{log[-3000:]}")
        cluster.stop(for_good=True)
    report.seconds = time.monotonic() - began
    return report
