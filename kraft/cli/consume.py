"""`kraft consume`: records of topics as lines of standard output."""

import os
import sys
import time
from functools import partial
from typing import Final

import click
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Message, TopicPartition

from kraft.cli.command import kraft
from kraft.cli.consuming import PASSING, ExactHeaders, Place, Places, range_of
from kraft.cli.interrupt import Interrupt
from kraft.cli.kafka_names import start_option, topics_argument
from kraft.cli.librdkafka import Outages, client_settings, library_errors, line_format, line_options
from kraft.cli.moments import time_ms, whole_number
from kraft.cli.names import complete_group
from kraft.cli.number_types import IntRange
from kraft.cli.options import BOOTSTRAP
from kraft.cli.record_filter import Filter
from kraft.cli.record_format import FIELDS, RecordFormat, Shown
from kraft.cli.record_lines import LineFormat, write_line
from kraft.cli.server_config import parse_assignments
from kraft.client import Cluster, RefusedError
from kraft.client.library_errors import library_error
from kraft.protocol.error_codes import ErrorCode

BATCH: Final = 1_000
# The longest wait of a record for others that are printed with it.
BATCH_SECONDS: Final = 0.1
WORDS: Final = {"beginning": OFFSET_BEGINNING, "end": OFFSET_END}
RESETS: Final = {"beginning": "earliest", "end": "latest"}


@kraft.command("consume")
@topics_argument
@click.option("--group", shell_complete=complete_group,
              help="Read as a member of this group, and commit what was printed.")
@click.option("--partition", "partitions", multiple=True, type=IntRange(0),
              help="Only this partition; may be given again. Not with --group.")
@start_option
@click.option("--last", "--tail", "last", type=IntRange(1), metavar="N",
              help="Begin N offsets before the end of each partition. Not with --from or --group.")
@click.option("--key", metavar="TEXT", help="Print only records with this key.")
@click.option("--header", "headers", multiple=True, metavar="NAME[=TEXT]",
              help="Print only records with this header; may be given again, for records with all of them.")
@click.option("--limit", "--max-messages", "limit", type=IntRange(0), help="Stop after this many records.")
@click.option("--until-end", is_flag=True, help="Stop at the end of every partition instead of waiting for more.")
@line_options
@click.option("-f", "--format", "shape", metavar="TEXT",
              help=f"Print this for each record, without a line end: {FIELDS}; \\n and others are characters.")
@BOOTSTRAP
@click.option("--json", "as_json", is_flag=True, help="One JSON object per record, with where it stands.")
def consume(topics: tuple[str, ...], group: str | None, partitions: tuple[int, ...], start: str, last: int | None,
            key: str | None, headers: tuple[str, ...], limit: int | None, until_end: bool, key_separator: str | None,
            null: str | None, timeout: float, properties: tuple[str, ...], shape: str | None, bootstrap: str,
            as_json: bool) -> None:
    """Print the records of topics: their values, one line each, and their keys with --key-separator.

    Runs until Ctrl-C, --limit or --until-end. With --until-end the command fails when a partition returns nothing for
    --timeout seconds before its end is reached.
    """
    form = line_format(as_json, key_separator, null)
    if shape is not None and (as_json or key_separator is not None):
        raise click.UsageError("--format says all that is printed: there is no --json and no --key-separator with it")
    chosen = None if shape is None else RecordFormat(shape, form.null)
    if group is not None and (partitions or last is not None or start not in RESETS):
        raise click.UsageError("a group decides itself where its members read: with --group there is no --partition "
                               "and no --last, and --from is beginning or end")
    if last is not None and start != "beginning":
        raise click.UsageError("--last and --from both say where to begin")
    outages = Outages()
    library = client_settings(bootstrap, parse_assignments(properties, "--property"), {
        "group.id": group or f"kraft-consume-{os.getpid()}", "enable.auto.commit": group is not None,
        "enable.auto.offset.store": False, "auto.offset.reset": RESETS[start] if group is not None else "error",
        "enable.partition.eof": True, "allow.auto.create.topics": False, "error_cb": outages}, timeout)
    with library as settings, library_errors(bootstrap):
        consumer = Consumer(settings)
        try:
            places = Places(consumer, timeout, until_end=until_end)
            known = {topic: _partitions(consumer, topic, timeout) for topic in dict.fromkeys(topics)}
            outages.answered = True
            if group is None:
                wanted = [(topic, index) for topic, indexes in known.items() for index in _chosen(topic, indexes,
                                                                                                  partitions)]
                consumer.assign(_positions(consumer, wanted, start, timeout) if last is None
                                else _last(consumer, wanted, last, timeout))
                places.assign(wanted)
            else:
                places.subscribe(group, [(topic, index) for topic, indexes in known.items() for index in indexes])
                consumer.subscribe(list(known))
            with Cluster(bootstrap, timeout=timeout) as cluster, Interrupt() as interrupt:
                reader = Reader(consumer, chosen or form, places, ExactHeaders(cluster), Filter.of(key, headers))
                reader.run(limit, interrupt)
        finally:
            consumer.close()


class Reader:
    """Printer of those of a consumer's records that pass the filter."""

    def __init__(self, consumer: Consumer, form: LineFormat | RecordFormat, places: Places, headers: ExactHeaders,
                 wanted: Filter) -> None:
        self.wanted = wanted
        self.consumer = consumer
        self.form = form
        self.places = places
        self.headers = headers

    def run(self, limit: int | None, interrupt: Interrupt) -> None:
        """Print until `limit` records are printed, or every end is reached if that is wanted. Ctrl-C ends it once all
        received records are printed and marked as read."""
        left = limit
        while left is None or left > 0:
            began = time.monotonic()
            messages = self.consumer.consume(BATCH if left is None else min(left, BATCH), BATCH_SECONDS)
            waited = time.monotonic() - began
            printed = self._print(messages)
            left = None if left is None else left - printed
            interrupt.check()
            if left != 0 and self.places.are_read(waited):
                return

    def _print(self, messages: list[Message]) -> int:
        lines = []
        last: dict[Place, Message] = {}
        for message in messages:
            error = message.error()
            place = (message.topic() or "", message.partition() or 0)
            if error is None:
                if self.wanted.accepts(_bytes(message.key()), partial(self.headers.of, message)):
                    lines.append(self._line(message))
                last[place] = message
            elif error.code() == KafkaError._PARTITION_EOF:
                self.places.ended(place)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise RefusedError(f"partition {place[0]}-{place[1]}", ErrorCode.OFFSET_OUT_OF_RANGE,
                                   f"offset {message.offset()} is not, or no longer, in the log")
            elif error.fatal() or error.code() not in PASSING:
                raise library_error(f"topic {place[0]}", error)
        if lines:
            sys.stdout.buffer.write(b"".join(lines))
            sys.stdout.buffer.flush()
        for place, message in last.items():
            self.places.reached(place, (message.offset() or 0) + 1)
            if self.places.group is not None:
                self.consumer.store_offsets(message)
        return len(lines)

    def _line(self, message: Message) -> bytes:
        place = message.topic() or "", message.partition() or 0, message.offset() or 0, message.timestamp()[1]
        key, value = _bytes(message.key()), _bytes(message.value())
        if isinstance(self.form, RecordFormat):
            return self.form.write(Shown(*place, key, value, partial(self.headers.of, message)))
        return write_line(*place, key, value, self.headers.of(message) if self.form.as_json else (), self.form)


def _partitions(consumer: Consumer, topic: str, timeout: float) -> list[int]:
    found = consumer.list_topics(topic, timeout=timeout).topics[topic]
    if found.error is not None:
        raise library_error(f"topic {topic}", found.error)
    return sorted(found.partitions)


def _chosen(topic: str, indexes: list[int], wanted: tuple[int, ...]) -> list[int]:
    for each in wanted:
        if each not in indexes:
            raise RefusedError(f"partition {topic}-{each}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return list(dict.fromkeys(wanted)) or indexes


def _positions(consumer: Consumer, wanted: list[Place], start: str, timeout: float) -> list[TopicPartition]:
    """Return the start in each partition. Raises `RefusedError` for an offset that a partition does not have."""
    if start in WORDS:
        return [TopicPartition(topic, index, WORDS[start]) for topic, index in wanted]
    if (offset := whole_number(start)) is not None:
        for place in wanted:
            low, high = range_of(consumer, place, timeout)
            if not low <= offset <= high:
                raise RefusedError(f"partition {place[0]}-{place[1]}", ErrorCode.OFFSET_OUT_OF_RANGE,
                                   f"offset {start} is not in {low} to {high}")
        return [TopicPartition(topic, index, offset) for topic, index in wanted]
    moment = time_ms("--from", start, "beginning, end, an offset")
    found = consumer.offsets_for_times([TopicPartition(topic, index, moment) for topic, index in wanted], timeout)
    for each in found:
        if each.error is not None:
            raise library_error(f"partition {each.topic}-{each.partition}", each.error)
    return found


def _last(consumer: Consumer, wanted: list[Place], count: int, timeout: float) -> list[TopicPartition]:
    """Return the positions `count` offsets before the ends, or the starts of shorter partitions."""
    ranges = [range_of(consumer, place, timeout) for place in wanted]
    return [TopicPartition(*place, max(low, high - count)) for place, (low, high) in zip(wanted, ranges, strict=True)]


def _bytes(field: str | bytes | None) -> bytes | None:
    return field.encode() if isinstance(field, str) else field
