"""`kraft produce`: lines of standard input into records of a topic."""

import random
import sys
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click
from confluent_kafka import Producer

from kraft.cli.command import kraft
from kraft.cli.interrupt import Interrupt
from kraft.cli.kafka_names import topic_argument
from kraft.cli.librdkafka import Outages, client_settings, library_errors, line_format, line_options
from kraft.cli.number_types import IntRange
from kraft.cli.options import BOOTSTRAP, count_of
from kraft.cli.record_lines import LineFormat, LineRecord, name_bytes, read_line
from kraft.cli.server_config import parse_assignments
from kraft.client import Cluster, RefusedError
from kraft.client.library_errors import library_error
from kraft.client.producer import ALL
from kraft.client.producer import Producer as BatchProducer
from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import InvalidArgumentError, KraftError
from kraft_native.batch.records import BatchBuilder

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

ANY_PARTITION: Final = -1
WAIT_FOR_ALL: Final = ("all", "-1")
QUEUE_FULL_PAUSE_SECONDS: Final = 0.1
FLUSH_SECONDS: Final = 1.0


@kraft.command("produce")
@topic_argument
@click.option("--partition", type=IntRange(0), help="[default: by key, else evenly]")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="Of every record; may be given again.")
@click.option("--acks", "--request-required-acks", "acks", type=click.Choice(("all", "-1", "1", "0")), default="all",
              show_default=True)
@click.option("--codec", "--compression-codec", "codec", type=click.Choice(("none", "gzip", "snappy", "lz4", "zstd")),
              default="none", show_default=True)
@line_options
@BOOTSTRAP
@click.option("--json", "as_json", is_flag=True,
              help="Lines are JSON objects as `kraft consume --json` prints them: key, value, headers, timestamp.")
def produce(topic: str, partition: int | None, headers: tuple[str, ...], acks: str, codec: str,
            key_separator: str | None, null: str | None, timeout: float, properties: tuple[str, ...], bootstrap: str,
            as_json: bool) -> None:
    """Produce the lines of standard input to TOPIC, one record each, in their order.

    Exit code 0 when every record was acknowledged; their number is printed on standard error. After Ctrl-C the records
    that were read are still sent, and the exit code is 130. A second Ctrl-C does not wait for that, and prints how many
    are unacknowledged.
    """
    form = line_format(as_json, key_separator, null)
    fixed = [(name, value.encode()) for name, value in parse_assignments(headers, "--header").items()]
    outages = Outages()
    library = client_settings(bootstrap, parse_assignments(properties, "--property"), {
        "acks": acks, "compression.type": codec, "linger.ms": 5, "enable.idempotence": acks in WAIT_FOR_ALL,
        "message.timeout.ms": int(timeout * 1000), "error_cb": outages}, timeout)
    with library as settings, Cluster(bootstrap, timeout=timeout) as cluster:
        with library_errors(f"{bootstrap}"):
            writer = Writer(Producer(settings), topic, partition)
            writer.producer.list_topics(topic, timeout=timeout)
            outages.answered = True
        with Interrupt() as interrupt:
            writer.exact = ExactWriter(cluster, codec, acks)
            try:
                _produce_lines(writer, form, fixed, interrupt)
            finally:
                unknown = writer.flush(interrupt)
                click.echo(f"{count_of(writer.acknowledged, 'record')} produced"
                           f"{f', {unknown:,} not acknowledged' if unknown else ''}", err=True)
            interrupt.check()
    writer.check()


class Writer:
    """Producer to one topic that tracks the outcome of its records."""

    exact: "ExactWriter"

    def __init__(self, producer: Producer, topic: str, partition: int | None) -> None:
        self.producer = producer
        self.topic = topic
        self.partition = partition
        self.acknowledged = 0
        self.failure: KraftError | None = None

    def write(self, record: LineRecord, interrupt: Interrupt) -> None:
        """Queue a record; wait while too many are in flight. Raises the failure of an earlier one."""
        if not all(is_plain(name) for name, _ in record.headers):
            self._write_exact(record, interrupt)
            return
        partition = ANY_PARTITION if self.partition is None else self.partition
        while True:
            self.check()
            try:
                self.producer.produce(self.topic, record.value, record.key, partition,
                                      on_delivery=self._delivered, timestamp=record.timestamp_ms,
                                      headers=list(record.headers))
            except BufferError:
                self.producer.poll(QUEUE_FULL_PAUSE_SECONDS)
                continue
            self.producer.poll(0)
            return

    def _write_exact(self, record: LineRecord, interrupt: Interrupt) -> None:
        """Write a record after all earlier ones are acknowledged, so that the order stays."""
        if self.flush(interrupt):
            interrupt.check()
        self.check()
        self.exact.write(self.topic, self.partition, record)
        self.acknowledged += 1

    def flush(self, interrupt: Interrupt) -> int:
        """Wait until every record has its answer; each gets one, at the latest after its time-out. A Ctrl-C ends the
        wait. Return the number of records without an answer."""
        before = interrupt.count
        try:
            while (unknown := self.producer.flush(FLUSH_SECONDS)) and interrupt.count == before:
                pass
        except KeyboardInterrupt:
            return len(self.producer)
        return unknown

    def check(self) -> None:
        """Raise the first failure."""
        if self.failure is not None:
            raise self.failure

    def _delivered(self, error: "KafkaError | None", _message: "Message") -> None:
        if error is None:
            self.acknowledged += 1
        elif self.failure is None:
            self.failure = library_error(f"topic {self.topic}", error)


class ExactWriter:
    """Sender of records whose header names the client library would change: names with a NUL or that are not UTF-8."""

    def __init__(self, cluster: Cluster, codec: str, acks: str) -> None:
        # unacknowledged records could not be counted
        self.producer = BatchProducer(cluster, acks=ALL if acks in WAIT_FOR_ALL else 1)
        self.codec = codec

    def write(self, topic: str, partition: int | None, record: LineRecord) -> None:
        """Append the record. Without `partition` the key chooses it, as librdkafka's default partitioner does. A record
        whose answer is lost may be appended twice. Raises `RefusedError` or `ConnectionFailedError`."""
        builder = BatchBuilder(self.codec)
        builder.append(record.value, record.key, record.timestamp_ms or None,
                       [(name_bytes(name), content) for name, content in record.headers])
        partitions = len(self.producer.cluster.topic(topic).partitions)
        if partition is None:
            partition = zlib.crc32(record.key) % partitions if record.key else random.randrange(partitions)
        elif partition >= partitions:
            raise RefusedError(f"partition {topic}-{partition}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.producer.send({(topic, partition): builder.build()})


def is_plain(name: str) -> bool:
    """Return whether the client library sends this header name unchanged."""
    return "\0" not in name and not any("\udc80" <= character <= "\udcff" for character in name)


def _produce_lines(writer: Writer, form: LineFormat, headers: list[tuple[str, bytes]], interrupt: Interrupt) -> None:
    for number, line in enumerate(_lines(interrupt), 1):
        try:
            record = read_line(line.removesuffix(b"\n").removesuffix(b"\r"), form)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"line {number}: {error}") from error
        with library_errors(f"line {number}"):
            writer.write(record._replace(headers=[*headers, *record.headers]), interrupt)


def _lines(interrupt: Interrupt) -> Iterator[bytes]:
    """Yield standard input's lines. Ctrl-C takes effect while it waits for one."""
    while True:
        interrupt.allow(True)
        line = sys.stdin.buffer.readline()
        interrupt.allow(False)
        if not line:
            return
        yield line
