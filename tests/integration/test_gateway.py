"""The HTTP gateway in front of a node: nothing is lost or repeated, and what is wrong is refused."""

import http.client
import itertools
import socket
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kraft_native.base.murmur import murmur2_partitions
from tests.integration import admin
from tests.integration.gateway import SECONDS, Answer, Event, GatewayClient, running_gateway
from tests.integration.process import NodeProcess

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture
def topic_name(node: NodeProcess, name: str) -> str:
    """Create a topic of this test's own."""
    admin.create(node, name, 4)
    return name


@pytest.fixture(scope="module")
def gateway(shared_process: NodeProcess) -> Iterator[GatewayClient]:
    with running_gateway(shared_process.address, "--cors-origin", "https://page.example", "--limit",
                         "body_bytes=100000", "--limit", "requests_per_second=5000") as client:
        yield client


def post(gateway: GatewayClient, topic: str, *values: str, **headers: str) -> Answer:
    return gateway.request("POST", f"/topics/{topic}/records", {"records": [
        {"value": value, "partition": 0} for value in values]}, **headers)


def partitions_of(keys: list[bytes], count: int) -> list[int]:
    """Return where Kafka's own clients put these keys."""
    ends = np.cumsum([0, *map(len, keys)], dtype=np.int32)
    found = np.empty(len(keys), np.int32)
    murmur2_partitions(ends, np.frombuffer(b"".join(keys), np.uint8), count, found)
    return [int(each) for each in found]


def taken(events: Iterator[Event], count: int) -> list[Event]:
    """Return the next events with data."""
    return list(itertools.islice((each for each in events if each.data is not None), count))


def test_each_form_of_producing(node: NodeProcess, gateway: GatewayClient, topic_name: str) -> None:
    now_ms = int(time.time() * 1000)
    answer = gateway.request("POST", f"/topics/{topic_name}/records", {"records": [
        {"value": "tea", "key": "t", "partition": 1, "headers": {"a": "b"}, "timestamp_ms": now_ms},
        {"value_base64": "/w==", "partition": 1}, {"value_json": {"a": 1}, "partition": 1}]})
    assert answer.status == 200, answer
    assert answer.body["records"] == [{"partition": 1, "offset": offset} for offset in range(3)]
    raw = gateway.request("POST", f"/topics/{topic_name}/records?partition=1&key=k", b"\x00\xff", Kafka_Header_Name="x")
    assert raw.body["records"] == [{"partition": 1, "offset": 3}]
    lines = gateway.request("POST", f"/topics/{topic_name}/records", b'{"value":"a","partition":1}\n',
                            Content_Type="application/x-ndjson")
    assert lines.body["records"] == [{"partition": 1, "offset": 4}]
    with gateway.events(f"/topics/{topic_name}/events?partition=1&from=beginning") as events:
        found = taken(events, 5)
    assert [each.id for each in found] == ["1:1", "1:2", "1:3", "1:4", "1:5"]
    assert found[0].data == {"partition": 1, "offset": 0, "timestamp_ms": now_ms, "key": "t", "value": "tea",
                             "headers": [{"name": "a", "value": "b"}]}
    assert [each.data.get("value", each.data.get("value_base64")) for each in found] == [
        "tea", "/w==", '{"a":1}', "AP8=", "a"]
    assert (found[3].data["key"], found[3].data["headers"]) == ("k", [{"name": "name", "value": "x"}])
    placed = gateway.request("POST", f"/topics/{topic_name}/records", {"records": [
        {"value": "x", "key": f"key {number}"} for number in range(20)]}).body["records"]
    assert [each["partition"] for each in placed] == partitions_of([b"key %d" % number for number in range(20)], 4)
    described = gateway.request("GET", f"/topics/{topic_name}").body
    end = 5 + sum(each["partition"] == 1 for each in placed)
    assert described["partitions"][1] == {"partition": 1, "start_offset": 0, "end_offset": end}


def test_a_subscriber_continues_after_its_last_event(node: NodeProcess, gateway: GatewayClient,
                                                     topic_name: str) -> None:
    """It does so in all partitions, and also when nothing had come before the connection ended."""
    path = f"/topics/{topic_name}/events"
    post(gateway, topic_name, "before")
    with gateway.events(path) as events:
        start = next(events)
        assert start.data is None
    assert start.id == "0:1,1:0,2:0,3:0"
    for partition, value in ((0, "a"), (2, "b"), (0, "c")):
        gateway.request("POST", f"/topics/{topic_name}/records", {"value": value, "partition": partition})
    with gateway.events(path, Last_Event_ID=start.id) as events:
        first = taken(events, 1)
    with gateway.events(f"{path}?last_event_id={first[0].id}") as events:
        rest = taken(events, 2)
    found = [*first, *rest]
    assert sorted(each.data["value"] for each in found) == ["a", "b", "c"]
    assert sorted(rest[-1].id.split(",")) == ["0:3", "1:0", "2:1", "3:0"]
    with gateway.events(path, Last_Event_ID="0:3") as events:       # as if the others had been added since
        assert next(events).id == "0:3,1:0,2:0,3:0"
        assert taken(events, 1)[0].data["value"] == "b"


def test_many_subscribers_share_a_feed(node: NodeProcess, gateway: GatewayClient, topic_name: str) -> None:
    with gateway.events(f"/topics/{topic_name}/events?partition=0") as one, \
            gateway.events(f"/topics/{topic_name}/events?partition=0&key=x&key_prefix=a-") as other:
        next(one), next(other)
        for number, key in enumerate(("x", "y", "a-1", None)):
            gateway.request("POST", f"/topics/{topic_name}/records", {"value": str(number), "key": key, "partition": 0})
        assert [each.data["offset"] for each in taken(one, 4)] == [0, 1, 2, 3]
        assert [each.data["key"] for each in taken(other, 2)] == ["x", "a-1"]
    text = gateway.request("GET", "/metrics").body
    assert "kraft_gateway_feeds " in text and "kraft_gateway_records_produced_total" in text


def test_starts(node: NodeProcess, gateway: GatewayClient, topic_name: str) -> None:
    now_ms = int(time.time() * 1000) - 1_000
    gateway.request("POST", f"/topics/{topic_name}/records", {"records": [
        {"value": str(number), "partition": 0, "timestamp_ms": now_ms + number} for number in range(5)]})
    for start, first in (("3", 3), ("beginning", 0), (f"time:{now_ms + 2}", 2)):
        with gateway.events(f"/topics/{topic_name}/events?partition=0&from={start}") as events:
            assert taken(events, 1)[0].data["offset"] == first
    late = gateway.request("GET", f"/topics/{topic_name}/events?partition=0&from=99")
    assert (late.status, late.body["error"]["code"]) == (416, "OFFSET_OUT_OF_RANGE")


def test_records_that_retention_removed_are_reported(node: NodeProcess, gateway: GatewayClient,
                                                     topic_name: str) -> None:
    from kraft.client import Cluster
    from kraft.protocol.messages.delete_records_request import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsTopic,
    )
    from kraft.protocol.messages.delete_records_response import DeleteRecordsResponse

    post(gateway, topic_name, "a", "b", "c")
    with Cluster(node.address) as cluster:
        cluster.leader(topic_name, 0).send(DeleteRecordsRequest(timeout_ms=5_000, topics=[DeleteRecordsTopic(
            name=topic_name, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])]), DeleteRecordsResponse)
    with gateway.events(f"/topics/{topic_name}/events", Last_Event_ID="0:1") as events:
        gap, record = taken(events, 2)
    assert (gap.name, gap.data) == ("gap", {"partition": 0, "from": 1, "to": 2})
    assert record.data["value"] == "c"


def test_a_repeated_request_stores_nothing(node: NodeProcess, gateway: GatewayClient, topic_name: str) -> None:
    first = post(gateway, topic_name, "a", Idempotency_Key="1")
    again = post(gateway, topic_name, "a", Idempotency_Key="1")
    assert (first.body, "idempotency-replayed" in first.headers) == (again.body, False)
    assert again.headers["idempotency-replayed"] == "true"
    assert post(gateway, topic_name, "b", Idempotency_Key="1").status == 422
    assert post(gateway, topic_name, "a", Idempotency_Key="2").body["records"][0]["offset"] == 1


def test_refusals(node: NodeProcess, gateway: GatewayClient, topic_name: str) -> None:
    records = f"/topics/{topic_name}/records"
    for method, path, body, status, code in (
            ("POST", records, {"valu": 1}, 400, "INVALID_REQUEST"),
            ("POST", records, b"x" * 100_001, 413, "MESSAGE_TOO_LARGE"),
            ("POST", records, {"value": "a", "partition": 77}, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
            ("POST", "/topics/a%20b/records", b"x", 400, "INVALID_REQUEST"),
            ("GET", f"/topics/{topic_name}/events?partition=77", None, 404, "UNKNOWN_TOPIC_OR_PARTITION"),
            ("GET", f"/topics/{topic_name}/events?offset=1", None, 400, "INVALID_REQUEST"),
            ("GET", f"/topics/{topic_name}/events?from=-1", None, 400, "INVALID_REQUEST"),
            ("GET", f"/topics/{topic_name}/events?last_event_id=x", None, 400, "INVALID_REQUEST")):
        answer = gateway.request(method, path, body)
        assert (answer.status, answer.body["error"]["code"]) == (status, code), (path, answer)
    mixed = gateway.request("POST", records, {"records": [{"value": "a", "partition": 0}, {"value": "a",
                                                                                          "partition": 77}]})
    assert mixed.status == 207
    assert [("offset" in each, "error" in each) for each in mixed.body["records"]] == [(True, False), (False, True)]


def test_events_without_a_body(gateway: GatewayClient, topic_name: str) -> None:
    """The server drops the body of an answer to HEAD, so that nothing would slow its sender."""
    post(gateway, topic_name, *["x" * 1_000] * 50)
    connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=SECONDS)
    try:
        for _ in range(2):      # the second answer comes after the end of the first
            connection.request("HEAD", f"/topics/{topic_name}/events?from=beginning")
            answer = connection.getresponse()
            answer.read()
            assert (answer.status, answer.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")
    finally:
        connection.close()


def test_pages_of_other_origins(gateway: GatewayClient, topic_name: str) -> None:
    posted = [gateway.request("POST", f"/topics/{topic_name}/records", b"x", Origin=origin).status
              for origin in ("https://page.example", "https://other", f"http://{gateway.host}:{gateway.port}")]
    assert posted == [200, 403, 200]
    allowed = gateway.request("GET", "/health", Origin="https://page.example")
    assert (allowed.body, allowed.headers["access-control-allow-origin"]) == ("ok\n", "https://page.example")
    assert "access-control-allow-origin" not in gateway.request("GET", "/health", Origin="https://other").headers
    assert "kraft gateway" in gateway.request("GET", "/").body
    assert gateway.request("GET", "/openapi.json").body["openapi"] == "3.1.0"


def test_a_slow_subscriber_is_cut_and_delays_nobody(node: NodeProcess, topic_name: str) -> None:
    value = "x" * 50_000
    with running_gateway(node.address, "--limit", "slow_seconds=1", "--limit", "feed_bytes=200000") as gateway, \
            socket.create_connection((gateway.host, gateway.port)) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.sendall(f"GET /topics/{topic_name}/events?partition=0&from=beginning HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        with gateway.events(f"/topics/{topic_name}/events?partition=0") as events:
            next(events)
            for number in range(100):
                assert post(gateway, topic_name, value).status == 200
                assert taken(events, 1)[0].data["offset"] == number
        until = time.monotonic() + 20
        while "subscribers_cut_total 1.0" not in gateway.request("GET", "/metrics").body:
            assert time.monotonic() < until


def test_limits_of_an_address(node: NodeProcess, topic_name: str, tmp_path: Any) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("a-token-of-this-test\n")
    with running_gateway(node.address, "--limit", "requests_per_second=2", "--limit", "subscribers=1",
                         "--tokens-file", str(tokens)) as gateway:
        login = {"Authorization": "Bearer a-token-of-this-test"}
        refused = gateway.request("GET", f"/topics/{topic_name}")
        assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
        with gateway.events(f"/topics/{topic_name}/events?partition=0", **login) as events:
            next(events)
            assert gateway.request("GET", f"/topics/{topic_name}/events", **login).status == 503
        statuses = [gateway.request("GET", "/", **login).status for _ in range(5)]
        assert statuses[-1] == 429
        assert gateway.request("GET", "/health").status == 200


def test_errors_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    from kraft.cli.command import run

    for options, text in ((["--listen", "x"], "is not HOST:PORT"), (["--limit", "a=1"], "--limit a: unknown"),
                          (["--limit", "users=x"], "allowed is a whole number"), (["--tls-key", __file__], "together")):
        assert run(["gateway", *options]) == 2
        assert text in capsys.readouterr().err
    assert run(["gateway", "--login", "user"]) == 1
    assert "no sasl.mechanism" in capsys.readouterr().err
