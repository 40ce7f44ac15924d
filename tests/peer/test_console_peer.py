"""The console against Apache Kafka: every page answers, and names only what Kafka's nodes lack."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.client import Cluster
from kraft.client.groups import commit_offsets
from kraft.console.app import PAGES
from tests.console.browsers import Browser, browsing
from tests.console.test_pages import fill
from tests.peer.kafka import KafkaNode, kafka_node, require_kafka

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    require_kafka()
    with kafka_node(tmp_path_factory.mktemp("kafka") / "home") as found:
        found.start()
        yield found


@pytest.fixture
def browser(node: KafkaNode, tmp_path: Path) -> Iterator[Browser]:
    with browsing(node.bootstrap, timeout=10.0) as found:
        yield found


def test_every_page(node: KafkaNode, browser: Browser) -> None:
    with Cluster(node.bootstrap, timeout=30) as cluster:
        fill(cluster, "paged", [b"needle %d" % each for each in range(120)])
        commit_offsets(cluster, "g-paged", {("paged", 0): 7})
        node_id = cluster.nodes()[0].node_id
    names = {"broker": str(node_id), "topic": "paged", "partition": "0", "group": "g-paged", "kind": "topic",
             "name": "paged"}
    lacking = {}
    for path in PAGES:
        if path in ("/login", "/clients/{instance}"):
            continue
        shown = browser.get(re.sub(r"\{(\w+)(:path)?\}", lambda found: names[found[1]], path))
        if missing := re.findall(r"does not answer for ([^:]+):", shown):
            lacking[path] = missing
    assert set(lacking) <= {"/acls"}, lacking          # without an authorizer
    assert "has no flight recorder" in browser.get("/timeline")
    assert "113</td>" in browser.get("/groups/g-paged")
    assert "120 records found" not in browser.get("/topics/paged/records?text=needle&search=1")
    assert "20 records found" in browser.get("/topics/paged/records?text=needle&search=1&cursor=0.100")
    assert "/topics/paged<" in browser.get("/metadata?at=1")
    assert "same bytes" in browser.get("/topics/paged/digests/0")
    assert "needs" not in browser.get("/why")
    shown = browser.get("/configs/topic/paged?all=1")
    assert "Specifies the minimum number of in-sync replicas" in shown and "&lt;code&gt;" not in shown


def test_changes(node: KafkaNode) -> None:
    with browsing(node.bootstrap, timeout=30.0, allow_changes=True) as browser:
        browser.post("/login", token=browser.token("/login"))
        token = browser.token("/topics")
        done = browser.post("/change/create-topic", topic="made", partitions="2", token=token)
        assert (done.status_code, done.headers["location"]) == (303, "/topics/made")
        assert browser.post("/change/set-config", topic="made", name="retention.ms", value="60000",
                            token=token).status_code == 303
        assert "<dd>60000</dd>" in browser.get("/topics/made")
        assert browser.post("/change/set-config", topic="made", name="retention.ms", value="x",
                            token=token).status_code == 400
        assert browser.post("/change/add-partitions", topic="made", partitions="3", token=token).status_code == 303
        with Cluster(node.bootstrap, timeout=30) as cluster:
            commit_offsets(cluster, "g-made", {("made", 0): 0})
        assert browser.post("/change/reset-group", group="g-made", to="latest", token=token).status_code == 303
        assert browser.post("/change/delete-group", group="g-made", confirm="g-made", token=token).status_code == 303
        assert browser.post("/change/delete-topic", topic="made", confirm="made", token=token).status_code == 303
        assert "/topics/made" not in browser.get("/topics")
