"""Pages of a live node: content, headers, escapes, errors, changes."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kraft.client import Cluster
from kraft.client.groups import commit_offsets
from kraft.client.producer import Producer
from kraft.client.topics import create_topic
from kraft.console.app import HEADERS, PAGES
from kraft_native.batch.records import BatchBuilder
from tests.cli.nodes import Started
from tests.console.browsers import Browser, browsing

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def browser(node: Started) -> Iterator[Browser]:
    with browsing(node.bootstrap) as found:
        yield found


@pytest.fixture
def changing(node: Started) -> Iterator[Browser]:
    with browsing(node.bootstrap, allow_changes=True) as found:
        yield found


def fill(cluster: Cluster, topic: str, values: list[bytes], partitions: int = 1, partition: int = 0) -> None:
    create_topic(cluster, topic, partitions, configs={"retention.ms": "-1"})    # its times are old
    builder = BatchBuilder("none")
    for number, value in enumerate(values):
        builder.append(value, key=b"key %d" % number, headers=[("number", b"%d" % number)],
                       timestamp_ms=1_700_000_000_000 + number)
    Producer(cluster).send({(topic, partition): builder.build()})


def test_every_page_has_landmarks_and_a_heading(browser: Browser, cluster: Cluster) -> None:
    fill(cluster, "landmarks", [b"v"])
    commit_offsets(cluster, "g-landmarks", {("landmarks", 0): 0})
    names = {"broker": "1", "topic": "landmarks", "partition": "0", "group": "g-landmarks", "kind": "topic",
             "name": "landmarks"}
    node_id = cluster.nodes()[0].node_id
    names["broker"] = str(node_id)
    for path in PAGES:
        if path in ("/login", "/clients/{instance}"):       # it has tests of its own
            continue
        shown = browser.get(re.sub(r"\{(\w+)(:path)?\}", lambda found: names[found[1]], path))
        assert len(re.findall(r"<h1>", shown)) == len(re.findall(r"<main ", shown)) == 1, path
        assert '<a class="skip" href="#main">' in shown and '<nav class="side" aria-label' in shown
        assert not re.search(r"style=|<script>|onclick=|javascript:", shown), path
        assert "does not answer for" not in shown or path == "/acls", path


def test_headers_of_every_kind_of_answer(browser: Browser) -> None:
    for path, status in (("/", 200), ("/nowhere", 404), ("/topics/missing", 404), ("/static/console.css", 200),
                         ("/topics?page=x", 400)):
        answer = browser.client.get(path)
        assert answer.status_code == status
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert browser.client.get("/").headers["Cache-Control"] == "no-store"
    again = browser.client.get("/static/console.js")
    assert browser.client.get("/static/console.js",
                              headers={"If-None-Match": again.headers["ETag"]}).status_code == 304


def test_everything_is_escaped(browser: Browser, cluster: Cluster) -> None:
    fill(cluster, "escapes", [EVIL.encode()])
    commit_offsets(cluster, EVIL, {("escapes", 0): 0})
    for path in ("/groups", "/topics/escapes/records?search=1", f"/topics?q={EVIL}", f"/topics/{EVIL}",
                 f"/topics/escapes/records?search=1&text={EVIL}", f"/timeline?topic={EVIL}", "/why",
                 f"/metadata?at={EVIL}", f"/topics/escapes/records?from={EVIL}"):
        shown = browser.client.get(path).text
        assert EVIL not in shown, path
    assert "&lt;script&gt;alert(1)" in browser.get("/topics/escapes/records?search=1")
    group = browser.get("/groups/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
    assert "Group &lt;script&gt;" in group and EVIL not in group


def test_another_host_is_refused(browser: Browser) -> None:
    assert browser.client.get("/", headers={"Host": "evil.example"}).status_code == 421
    assert browser.client.get("/nowhere", headers={"Host": "evil.example"}).status_code == 421
    assert browser.client.get("/static/console.js", headers={"Host": "evil.example:8080"}).status_code == 421
    assert browser.client.get("/", headers={"Host": "127.0.0.1:1"}).status_code == 200


def test_the_search_runs_to_its_end_in_slices(browser: Browser, cluster: Cluster) -> None:
    fill(cluster, "sliced", [b"needle %d" % number for number in range(250)], 2, 1)
    found, address = [], "/topics/sliced/records?text=needle&where=value&search=1"
    while address:
        shown = browser.get(address)
        found += re.findall(r"needle \d+", shown)
        following = re.search(r'data-next="([^"]+)"', shown)
        address = following[1].replace("&amp;", "&") if following else ""
    assert found == [f"needle {number}" for number in range(250)]
    assert "1 records found" in browser.get("/topics/sliced/records?text=needle+7&end=8&search=1")
    assert "1 records found" in browser.get("/topics/sliced/records?text=3132&hex=1&where=header&end=50&search=1")
    assert "2 records found" in browser.get("/topics/sliced/records?from=2023-11-14T22:13:20.248&search=1")
    assert "is not hexadecimal" in browser.get("/topics/sliced/records?text=zz&hex=1&search=1", 400)


def test_a_console_that_only_reads(browser: Browser) -> None:
    assert "read-only" in browser.get("/")
    assert "only reads" in browser.get("/login", 403)
    assert '<form method="post"' not in browser.get("/topics")
    assert browser.post("/change/create-topic", topic="x", partitions="1").status_code == 403
    assert browser.post("/login").status_code == 403


def test_changes_need_a_login_and_the_forms_token(changing: Browser, cluster: Cluster) -> None:
    assert changing.post("/change/create-topic", topic="forged", partitions="1").status_code == 403
    token = changing.token("/login?to=/topics")
    assert changing.post("/change/create-topic", topic="forged", partitions="1", token=token).status_code == 403
    assert changing.post("/login", token="wrong").status_code == 403
    begun = changing.post("/login", token=token, to="/topics")
    assert (begun.status_code, begun.headers["location"]) == (303, "/topics")
    cookie = begun.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert changing.post("/change/create-topic", topic="forged", partitions="1", token=token).status_code == 403
    token = changing.token("/topics")
    other = changing.client.post("/change/create-topic", data={"topic": "forged", "partitions": "1", "token": token},
                                 headers={"Origin": "http://evil.example"})
    assert other.status_code == 403
    assert "forged" not in {topic.name for topic in cluster.metadata().topics}


def test_changes(changing: Browser, cluster: Cluster) -> None:
    changing.post("/login", token=changing.token("/login"), to="//evil.example")
    token = changing.token("/topics")
    done = changing.post("/change/create-topic", topic="made", partitions="2", token=token)
    assert (done.status_code, done.headers["location"]) == (303, "/topics/made")
    assert "Topic made exists with 2 partitions." in changing.get("/topics/made")
    changing.post("/change/set-config", topic="made", name="retention.ms", value="60000", token=token)
    shown = changing.get("/topics/made")
    assert "retention.ms of topic made is 60000." in shown and "<dd>60000</dd>" in shown
    refused = changing.post("/change/set-config", topic="made", name="retention.ms", value="x", token=token)
    assert refused.status_code == 400 and "retention.ms" in refused.text
    changing.post("/change/add-partitions", topic="made", partitions="3", token=token)
    assert len(cluster.topic("made").partitions) == 3
    assert changing.post("/change/add-partitions", topic="made", partitions="0", token=token).status_code == 400
    commit_offsets(cluster, "g-made", {("made", 0): 0})
    assert changing.post("/change/reset-group", group="g-made", to="latest", token=token).status_code == 303
    assert changing.post("/change/delete-group", group="g-made", confirm="g", token=token).status_code == 400
    assert changing.post("/change/delete-group", group="g-made", confirm="g-made", token=token).status_code == 303
    assert changing.post("/change/delete-topic", topic="made", confirm="", token=token).status_code == 400
    assert changing.post("/change/delete-topic", topic="made", confirm="made", token=token).status_code == 303
    assert "made" not in {topic.name for topic in cluster.metadata().topics}
    assert changing.post("/change/nothing", token=token).status_code == 404
    assert changing.post("/logout", token=token).status_code == 303
    assert changing.post("/change/create-topic", topic="late", partitions="1", token=token).status_code == 403


def test_the_past_and_the_difference(browser: Browser, cluster: Cluster) -> None:
    before = browser.get("/metadata")
    last = max(int(each.replace(",", "")) for each in re.findall(r"metadata\?at=\d+\">([\d,]+)<", before))
    create_topic(cluster, "later-topic", 1)
    shown = browser.get(f"/metadata?at={last}")
    assert "/topics/later-topic<" in shown and "exists with 1 partition<" in shown
    assert "/topics/later-topic/0" not in shown         # a part of what came
    assert "later-topic" not in browser.get(f"/metadata?at={last}").split("Last changes")[0].split("values differ")[0]
    assert "lies ahead" in browser.get("/metadata?at=999999999", 502)


def test_a_cluster_that_does_not_answer(node: Started) -> None:
    with browsing("127.0.0.1:1", timeout=0.5) as browser:
        assert "The cluster does not answer" in browser.get("/", 503)
        assert "Not known" in browser.get("/why")


def test_many_visitors_at_once(browser: Browser) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert {answer.status_code for answer in threads.map(lambda _: browser.client.get("/topics"), range(24))} == \
            {200}
