"""Creation of topics: one by one, many in a request, and a start with many of them."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from typing import Final

from bench.macro.servers import Server
from kraft.client import Cluster
from kraft.client.refusals import RefusedError
from kraft.client.topics import create_topic
from kraft.log_dir import DELETED_SUFFIX
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse

BATCH: Final = 50
FILES_SECONDS: Final = 120.0
LOGS_PAUSE_SECONDS: Final = 0.1
REMOVAL_PAUSE_SECONDS: Final = 0.5
IN_SERVICE_SECONDS: Final = 30.0
IN_SERVICE_PAUSE_SECONDS: Final = 0.1


def create_topics(cluster: Cluster, names: list[str], partitions: int = 1) -> float:
    """Create topics of that many partitions in one request; return the seconds until the controller has answered."""
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1) for name in names]
    request = CreateTopicsRequest(topics=topics, timeout_ms=120_000)
    begin = time.perf_counter()
    answer = cluster.controller().send(request, CreateTopicsResponse)
    seconds = time.perf_counter() - begin
    if failed := [topic for topic in answer.topics if topic.error_code]:
        raise RuntimeError(f"{failed[0].name}: {failed[0].error_code} {failed[0].error_message}")
    return seconds


def create_up_to(server: Server, count: int) -> None:
    """Create topics until that many exist."""
    with Cluster(server.bootstrap) as cluster:
        there = len(cluster.metadata().topics)
        for first in range(there, count, BATCH):
            create_topics(cluster, [f"more-{number}" for number in range(first, min(first + BATCH, count))])


def await_logs(server: Server, cluster: Cluster, prefix: str) -> None:
    """Wait until every replica of the topics whose names begin so has its log. A server creates them after its answer,
    and what it has left to do when it is stopped would count for its next turn."""
    replicas = sum(len(partition.replica_nodes) for topic in cluster.metadata().topics
                   if (topic.name or "").startswith(prefix) for partition in topic.partitions)
    _wait_until(lambda: _directories(server, lambda name: name.startswith(prefix)) >= replicas, LOGS_PAUSE_SECONDS,
                f"{server.name}: not every replica of {prefix}* has its log")


def await_in_service(server: Server) -> None:
    """Wait until topics can be created: brokers that were paused for longer than their session are fenced until their
    next heartbeat."""
    name = f"ready-{uuid.uuid4().hex[:8]}"
    deadline = time.monotonic() + IN_SERVICE_SECONDS
    with Cluster(server.bootstrap) as cluster:
        while True:
            try:
                create_topic(cluster, name, 1)
                break
            except RefusedError as refused:
                if refused.code != ErrorCode.INVALID_REPLICATION_FACTOR or time.monotonic() > deadline:
                    raise
            time.sleep(IN_SERVICE_PAUSE_SECONDS)
    delete_topics(server, [name])


def delete_topics(server: Server, names: list[str]) -> None:
    """Request the deletion; files may be removed later."""
    with Cluster(server.bootstrap) as cluster:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], topic_names=names,
                                      timeout_ms=30_000)
        cluster.controller().send(request, DeleteTopicsResponse)


def await_files_removed(server: Server) -> None:
    """Wait until the files of deleted topics are removed: while a disk frees gigabytes, a commit takes up to 30 ms."""
    _wait_until(lambda: not _directories(server, lambda name: name.endswith(DELETED_SUFFIX)), REMOVAL_PAUSE_SECONDS,
                f"{server.name}: files of deleted topics are in {server.data}")


def _directories(server: Server, counts: Callable[[str], bool]) -> int:
    """Return the number of the server's directories whose names count."""
    return sum(counts(name) for _, names, _ in os.walk(server.data) for name in names)


def _wait_until(is_done: Callable[[], bool], pause_seconds: float, otherwise: str) -> None:
    deadline = time.monotonic() + FILES_SECONDS
    while not is_done():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{otherwise} after {FILES_SECONDS:g} s")
        time.sleep(pause_seconds)
