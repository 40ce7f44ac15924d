"""A producer and consumer in a process of its own (`python -m tests.attack.traffic PORT TOPIC`), whose every answer is
checked.

It sends a Produce, then a Fetch, and so on. For each line on its standard input it prints what it has measured since
the one before, as JSON: `Measured`. It stops at the end of its input.
"""

import gc
import json
import socket
import subprocess
import sys
import threading
import time
from typing import Final, NamedTuple

from kraft.protocol.apis import API_BY_NAME
from kraft.protocol.headers import encode_request_header
from kraft.protocol.message import Message
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft_native.batch.records import BatchBuilder

PRODUCE_VERSION: Final = 12
FETCH_VERSION: Final = 12
PAUSE_SECONDS: Final = 0.001
ANSWER_SECONDS_MAX: Final = 60.0
VALUE: Final = bytes(100)


class Measured(NamedTuple):
    """Latencies in milliseconds, sorted, and the error codes of answers other than 0."""

    produce_ms: list[float]
    fetch_ms: list[float]
    errors: list[int]


class Traffic:
    """The process. It runs from the constructor until `end`."""

    def __init__(self, port: int, topic: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.attack.traffic", str(port), topic], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)

    def measured(self) -> Measured:
        """Return what was measured since the previous call. Raises `ConnectionError` when the node sends no answers."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
            return Measured(**json.loads(self._process.stdout.readline()))
        except (OSError, ValueError) as error:
            raise ConnectionError("the producer and consumer got no answer") from error

    def end(self) -> None:
        self._process.communicate(timeout=ANSWER_SECONDS_MAX)


def exchange(connection: socket.socket, message: Message, version: int) -> bytes:
    """Send a request and return the body of its answer, which has a flexible header."""
    api = API_BY_NAME[type(message).__name__.removesuffix("Request")]
    content = encode_request_header(api, version, 1, "traffic") + message.encode(version)
    connection.sendall(len(content).to_bytes(4, "big") + content)
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    answer = connection.recv(size, socket.MSG_WAITALL)
    if not size or len(answer) != size:
        raise ConnectionError("closed")
    return answer[5:]


class Client:
    """Connection with one producer and consumer."""

    def __init__(self, port: int, topic: str) -> None:
        self._topic = topic
        self._connection = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS_MAX)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        builder = BatchBuilder()
        builder.append(VALUE, None, int(time.time() * 1000))      # younger than what retention deletes
        self._batch = builder.build()
        self.offset = 0

    def produce(self) -> int:
        """Write a record, and return the error code."""
        answer = ProduceResponse.decode(exchange(self._connection, ProduceRequest(
            acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=self._topic, partition_data=[
                PartitionProduceData(index=0, records=self._batch)])]), PRODUCE_VERSION), PRODUCE_VERSION)
        partition = answer.responses[0].partition_responses[0]
        self.offset = partition.base_offset
        return partition.error_code

    def fetch(self) -> int:
        """Read the record that was written last, and return the error code."""
        answer = FetchResponse.decode(exchange(self._connection, FetchRequest(
            max_wait_ms=0, topics=[FetchTopic(topic=self._topic, partitions=[FetchPartition(
                partition=0, fetch_offset=self.offset, partition_max_bytes=4096)])]), FETCH_VERSION), FETCH_VERSION)
        partition = answer.responses[0].partitions[0]
        return answer.error_code or partition.error_code


def main() -> None:
    client = Client(int(sys.argv[1]), sys.argv[2])
    wanted, ended = threading.Event(), threading.Event()

    def wait() -> None:
        for _ in sys.stdin:
            wanted.set()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    gc.disable()                       # a pause of its own is none of the node's
    measured = Measured([], [], [])
    while not ended.wait(PAUSE_SECONDS):
        for send, latencies_ms in ((client.produce, measured.produce_ms), (client.fetch, measured.fetch_ms)):
            began = time.perf_counter()
            code = send()
            latencies_ms.append((time.perf_counter() - began) * 1000)
            if code:
                measured.errors.append(code)
        if wanted.is_set():
            wanted.clear()
            print(json.dumps(Measured(sorted(measured.produce_ms), sorted(measured.fetch_ms),
                                      measured.errors)._asdict()), flush=True)
            measured = Measured([], [], [])


if __name__ == "__main__":
    main()
