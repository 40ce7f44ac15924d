"""`/ready` of real nodes with injected faults: its status, its reasons, and that they end with the fault."""

import asyncio
import json
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
import uvloop

from kraft.broker.readiness import BEHIND_MS_MAX, LEADERLESS_MS_MAX
from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.controller.local_broker import State
from kraft.deadlines import NEVER_MS
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import MetadataImage
from kraft.protocol.message import Message
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from kraft.runtime.any_node import AnyNode
from kraft.runtime.metrics import readiness_watch
from kraft.runtime.server_node import ServerNode
from kraft_native.partition.purgatory import now_ms as monotonic_ms
from tests.integration.admin import wait_until
from tests.ports import free_ports
from tests.runtime.metrics.test_http_server import TOKEN, get
from tests.runtime.nodes import config, with_controller, with_node
from tests.runtime.quorum.metadata_nodes import formatted

SECONDS: Final = 20.0
Undo = Callable[[], object]


def nothing() -> None:
    return


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request reads the state again."""
    monkeypatch.setattr(readiness_watch, "FRESH_MS", 0)


def settings(tmp_path: Path, **more: str) -> Any:
    return config(tmp_path / "data", kraft_metrics_listener="127.0.0.1:0", **more)


def ready(node: AnyNode, authorization: str = "") -> tuple[int, dict[str, Any]]:
    status, text = get(node, "/ready", authorization)  # type: ignore[arg-type]
    return status, json.loads(text)


def codes(node: AnyNode, kind: str = "reasons") -> list[str]:
    status, body = ready(node)
    assert body["ready"] is (status == 200) is (not body["reasons"])
    return [each["code"] for each in body[kind]]


def on_loop(node: AnyNode, work: Callable[[], Any]) -> Any:
    async def run() -> Any:
        return work()

    assert node.readiness is not None
    return asyncio.run_coroutine_threadsafe(run(), node.readiness._loop).result(SECONDS)


# --- faults: each returns what ends it --------------------------------------------------------------------------------


def changed(node: ServerNode, record: Message) -> MetadataImage:
    image = node.parts.core.broker.image
    delta = MetadataDelta(image)
    delta.replay(record)
    return delta.finish(image.offset, image.epoch, image.timestamp_ms)


def show(node: ServerNode, image: MetadataImage) -> Undo:
    before = node.parts.core.broker.image
    node.parts.core.broker.image = image
    return lambda: setattr(node.parts.core.broker, "image", before)


def fenced(node: ServerNode) -> Undo:
    broker = node.parts.core.broker
    return show(node, changed(node, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=broker.epoch, fenced=1)))


def unregistered(node: ServerNode) -> Undo:
    broker = node.parts.core.broker
    return show(node, changed(node, UnregisterBrokerRecord(broker_id=1, broker_epoch=broker.epoch)))


def replaced(node: ServerNode) -> Undo:
    broker = node.parts.control.broker
    assert broker is not None
    broker.state = State.REPLACED
    return lambda: setattr(broker, "state", State.RUNNING)


def lease_ended(node: ServerNode) -> Undo:
    broker = node.parts.control.broker
    assert broker is not None
    broker._next_ms = NEVER_MS
    broker.lease.revoke(node.parts.control.clock() - 1)
    return lambda: broker.send_now(node.parts.control.clock())


def leaderless(node: ServerNode) -> Undo:
    """The controller here is not active any more; an election may take its time."""
    watch, metadata = node.readiness, node.parts.control.metadata
    assert watch is not None
    controller = metadata.controller
    metadata.controller = SimpleNamespace(active=False, image=metadata.image)  # type: ignore[assignment]
    watch._led_ms -= LEADERLESS_MS_MAX
    return lambda: setattr(metadata, "controller", controller)


def metadata_behind(node: ServerNode) -> Undo:
    """Changes are committed, and the work on an earlier one does not end."""
    watch, is_over = node.readiness, threading.Event()
    assert watch is not None
    image = node.parts.core.broker.image
    undo = show(node, replace(image, offset=image.offset - 3))
    node.parts.core.changes.add(endless(is_over))
    now_ms = monotonic_ms()
    watch._ages.note(image.offset + 1, image.offset - 2, now_ms - BEHIND_MS_MAX - 1)

    def end() -> None:
        is_over.set()
        undo()

    return end


def endless(is_over: threading.Event) -> Iterator[None]:
    while not is_over.is_set():
        yield


def recovering(node: ServerNode) -> Undo:
    replicas = node.parts.core.replicas
    replicas.slow_count = 7
    return lambda: setattr(replicas, "slow_count", 0)


def not_settled(node: ServerNode) -> None:
    assert node.readiness is not None
    node.readiness._state = replace(node.readiness._state, was_ready=False)


def opening(node: ServerNode) -> Undo:
    not_settled(node)
    due: dict[str, Any] = node.parts.core.replicas._creations._due
    due["t"] = deque([None, None])
    return lambda: due.pop("t")


def loading(node: ServerNode) -> Undo:
    not_settled(node)
    shards = node.parts.core.broker.groups.shards
    assert shards.start_load(1, 1)
    return lambda: shards.resign(1)


def behind(node: ServerNode) -> Undo:
    """The replica follows node 2, and is not in sync."""
    not_settled(node)
    image = node.parts.core.broker.image
    topic_id = image.topic_ids["t"]
    topic = image.topics[topic_id]
    registration = replace(topic.partitions[0], replicas=(1, 2), isr=(2,), leader=2)
    led = next(each for each in node.parts.path.table if each.topic == "t")
    led.become_follower(led.leader_epoch + 1, 2)
    return show(node, replace(image, topics={**image.topics, topic_id: replace(topic, partitions={0: registration})}))


FAULTS: Final[dict[str, Callable[[ServerNode], Undo]]] = {
    "fenced": fenced, "not-registered": unregistered, "replaced": replaced, "lease-ended": lease_ended,
    "no-active-controller": leaderless, "metadata-behind": metadata_behind, "recovering-logs": recovering,
    "opening-replicas": opening, "loading-coordinators": loading, "replicas-behind": behind,
}


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_makes_it_not_ready_while_it_lasts(tmp_path: Path, code: str) -> None:
    def work(cluster: Cluster, node: ServerNode) -> None:
        create_topic(cluster, "t", 1)
        wait_until(lambda: not codes(node), "it is ready", SECONDS)
        undo = on_loop(node, lambda: FAULTS[code](node))
        assert code in codes(node)
        assert get(node, "/health")[0] == 200, "a restart would not help"
        on_loop(node, undo)
        wait_until(lambda: code not in codes(node), "it is ready again", SECONDS)

    with_node(settings(tmp_path), work)


def test_a_node_that_stops_is_not_ready(tmp_path: Path) -> None:
    def work(_cluster: Cluster, node: ServerNode) -> None:
        on_loop(node, node.stop)
        assert ready(node) == (503, {"ready": False, "reasons": [{"code": "stopping", "text": "the node is stopping"}],
                                     "warnings": []})

    with_node(settings(tmp_path), work)


def test_a_node_that_failed_names_the_fault(tmp_path: Path) -> None:
    def work(_cluster: Cluster, node: ServerNode) -> None:
        node.failure = ArithmeticError("half done")
        on_loop(node, node.stop)
        assert ready(node)[1]["reasons"] == [{
            "code": "failed", "text": "the node stops because of a fault of its own: ArithmeticError: half done"}]
        node.failure = None

    with_node(settings(tmp_path), work)


def test_a_loop_that_does_not_answer_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness_watch, "ANSWER_SECONDS_MAX", 0.1)
    may_continue = threading.Event()

    def work(_cluster: Cluster, node: ServerNode) -> None:
        wait_until(lambda: not codes(node), "it is ready", SECONDS)
        assert node.readiness is not None
        node.readiness._loop.call_soon_threadsafe(may_continue.wait, SECONDS)
        assert codes(node) == ["unresponsive"]
        may_continue.set()
        wait_until(lambda: not codes(node), "it is ready again", SECONDS)

    with_node(settings(tmp_path), work)


def test_a_directory_that_is_removed_is_named(tmp_path: Path) -> None:
    lost = tmp_path / "other"

    def work(_cluster: Cluster, node: ServerNode) -> None:
        wait_until(lambda: not codes(node), "it is ready", SECONDS)
        shutil.rmtree(lost)
        wait_until(lambda: codes(node) == ["offline-directories"], "it is noticed", SECONDS)
        assert ready(node)[1]["reasons"][0]["text"] == f"1 of 2 log directories is offline: {lost}"

    with_node(settings(tmp_path, log_dirs=f"{tmp_path}/data,{lost}"), work)


def test_warnings_leave_it_ready(tmp_path: Path) -> None:
    def harm(node: ServerNode) -> None:
        node.parts.core.replicas.failed["t", 0] = ValueError("unreadable")
        node.parts.core.broker.faults.note("topic t", ["retention.ms: no number"])

    def work(_cluster: Cluster, node: ServerNode) -> None:
        wait_until(lambda: not codes(node), "it is ready", SECONDS)
        on_loop(node, lambda: harm(node))
        assert (ready(node)[0], codes(node, "warnings")) == (200, ["replicas-not-served", "metadata-not-applied"])
        on_loop(node, node.parts.core.replicas.failed.clear)

    with_node(settings(tmp_path), work)


def test_codes_need_no_token_and_texts_do(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)

    def work(_cluster: Cluster, node: ServerNode) -> None:
        on_loop(node, node.stop)
        assert ready(node) == (503, {"ready": False, "reasons": [{"code": "stopping"}], "warnings": []})
        assert ready(node, f"Bearer {TOKEN}")[1]["reasons"][0]["text"] == "the node is stopping"
        assert get(node, "/ready", "Bearer another-token-of-27-letters") == (401, "")

    with_node(settings(tmp_path, **{"kraft.metrics.token.file": str(tokens)}), work)


def test_a_broker_without_controllers_answers_from_the_beginning(tmp_path: Path) -> None:
    """It is healthy, is not ready, and its metrics cannot be read yet."""
    controller, = free_ports(1)
    formatted(tmp_path / "data")
    alone = settings(tmp_path, process_roles="broker", listeners="PLAINTEXT://127.0.0.1:0",
                     controller_quorum_bootstrap_servers=f"127.0.0.1:{controller}")

    async def main() -> None:
        node = ServerNode(alone)
        start = asyncio.create_task(node.start())
        try:
            await asyncio.to_thread(starts, node)
        finally:
            start.cancel()
            with suppress(asyncio.CancelledError):
                await start
        assert node.metrics is not None
        with pytest.raises(OSError, match="refused"):
            await asyncio.to_thread(get, node, "/health")

    def starts(node: ServerNode) -> None:
        wait_until(lambda: node.metrics is not None, "it answers", SECONDS)
        wait_until(lambda: "not-registered" in codes(node), "it has opened its directories", SECONDS)
        assert codes(node) == ["starting", "no-active-controller", "not-registered"]
        assert get(node, "/health") == (200, "ok\n")
        assert get(node, "/metrics") == (503, "metrics cannot be read while the node starts or stops; see /ready\n")

    uvloop.run(main())


def test_a_controller_alone(tmp_path: Path) -> None:
    port, = free_ports(1)
    formatted(tmp_path / "data")

    def work(node: Any) -> None:
        wait_until(lambda: not codes(node), "it leads", SECONDS)
        on_loop(node, node.stop)
        assert codes(node) == ["stopping"]

    with_controller(settings(tmp_path, process_roles="controller", listeners=f"CONTROLLER://127.0.0.1:{port}",
                             controller_quorum_voters=f"1@127.0.0.1:{port}"), work)


def test_many_requests_read_the_state_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness_watch, "FRESH_MS", 60_000)

    def work(_cluster: Cluster, node: ServerNode) -> None:
        first = ready(node)
        on_loop(node, node.stop)
        assert ready(node) == first, "of the last minute"

    with_node(settings(tmp_path), work)


def test_a_state_that_cannot_be_read_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(*, was_ready: bool) -> Any:
        raise LookupError

    async def main() -> None:
        watch = readiness_watch.ReadinessWatch(broken)
        watch.start()
        with pytest.raises(LookupError):
            await watch.verdict()
        for _ in range(3):
            await asyncio.sleep(0)
        await watch.close()
        await watch.close()

    uvloop.run(main())
    assert caplog.text.count("the state of the node cannot be read") == 1
