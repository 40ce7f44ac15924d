"""Pictures of every page for the documentation, of a cluster of three brokers with one of them down.

    python -m tests.console.screenshots docs/operate/console

Needs Chromium and Pillow (extra `bench`).
"""

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import confluent_kafka
from PIL import Image

from kraft.cli.console import CommandSources
from kraft.client.configs import Change, Operation, alter_configs
from kraft.client.groups import commit_offsets
from kraft.client.producer import Producer
from kraft.client.transactional_producer import TransactionalProducer
from kraft.local.cluster import LocalCluster
from kraft_native.batch.records import BatchBuilder
from tests.console.incidents import SETTINGS, Lab, quota_throttles_everybody
from tests.console.test_browser import chromium, served
from tests.ports import free_ports

COLORS = 48
PAGES = {
    "overview": "/", "why": "/why", "brokers": "/brokers", "broker": "/brokers/1", "topics": "/topics",
    "topic": "/topics/orders", "records": "/topics/orders/records?search=1&text=table-7&decoder=json",
    "replicas": "/topics/payments/digests/0", "groups": "/groups", "group": "/groups/billing",
    "clients": "/clients", "client": "/clients/INSTANCE", "transactions": "/transactions", "quorum": "/quorum",
    "timeline": "/timeline?topic=orders",
    "metadata": "/metadata?at=AT", "settings": "/configs/topic/orders", "quotas": "/quotas", "access": "/acls",
}
DARK = ("overview", "records")


def fill(lab: Lab) -> None:
    """Make topics, records, groups and a quota."""
    lab.topic("orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas="2")
    lab.topic("payments", [[1, 3], [3, 1]])
    lab.topic("clicks", [[2]])
    lab.topic("audit", [[1, 2]])
    for topic in ("orders", "payments"):
        for partition in (0, 1):
            builder = BatchBuilder("zstd")
            for number in range(400):
                value = {"order": number, "table": f"table-{number % 40}", "sum": f"{number % 90}.50"}
                builder.append(json.dumps(value).encode(), key=b"table-%d" % (number % 40), headers=[("shop", b"7")])
            Producer(lab.client).send({(topic, partition): builder.build()})
    commit_offsets(lab.client, "billing", {("orders", 0): 400, ("orders", 1): 120})
    commit_offsets(lab.client, "reports", {("payments", 0): 400})
    alter_configs(lab.client, "topic", "orders", [Change("retention.ms", Operation.SET, "604800000")])
    quota_throttles_everybody(lab)


def push(lab: Lab, sources: CommandSources) -> str:
    """Have two clients push their metrics; return the instance of one."""
    alter_configs(lab.client, "client-metrics", "billing", [
        Change("metrics", Operation.SET, "org.apache.kafka."), Change("interval.ms", Operation.SET, "500"),
        Change("match", Operation.SET, "client_id=billing-.*")])
    common: dict[str, Any] = {"bootstrap.servers": lab.cluster.brokers[1].address, "enable.metrics.push": True}
    writer = confluent_kafka.Producer({**common, "client.id": "billing-writer"})
    reader = confluent_kafka.Consumer({**common, "client.id": "billing-reader", "group.id": "billing-readers"})
    lab.stack.callback(reader.close)
    reader.subscribe(["payments"])

    def both_push() -> bool:
        writer.produce("payments", b"v", partition=1)
        writer.poll(0.05)
        reader.poll(0.05)
        return len(sources.client_reports().instances) == 2

    lab.wait(both_push, "both clients push")
    return sources.client_reports().instances[1].instance


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, LocalCluster(
            Path(home), brokers=3, controllers=3, settings={**SETTINGS, "offsets.topic.replication.factor": "3"}
            ) as cluster, ExitStack() as stack:
        ports = free_ports(len(cluster.brokers))
        for node, port in zip(cluster.brokers.values(), ports, strict=True):
            node.settings["kraft.metrics.listener"] = f"{node.host}:{port}"
        cluster.start()
        lab = Lab(cluster, stack.enter_context(cluster.client()), stack)
        fill(lab)
        TransactionalProducer(lab.client, "checkout", expiry_ms=600_000).send("payments", 0, [(b"k", b"v")])
        lab.kill(2)
        sources = CommandSources([node.settings["kraft.metrics.listener"] for node in cluster.brokers.values()
                                  if node.running])
        instance = push(lab, sources)
        with served(cluster.bootstrap, None, sources) as address:
            for name, page in PAGES.items():
                for scheme in ("light", "dark") if name in DARK else ("light",):
                    to = address + page.replace("AT", "40").replace("INSTANCE", instance)
                    path = directory / (f"{name}.png" if scheme == "light" else f"{name}-dark.png")
                    chromium(f"--screenshot={path.absolute()}", to, profile=Path(home, "profile"), scheme=scheme)
                    with Image.open(path) as picture:
                        small = picture.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
                    small.save(path, optimize=True)
                    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
        for node in cluster.nodes.values():
            if not node.running:
                node.expect_end()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
