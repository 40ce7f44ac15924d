"""An open loop with librdkafka, which shares nothing with the generator of `kraft bench`.

    python -m bench.macro.open_loop_client BOOTSTRAP TOPIC PARTITION RATE SECONDS RECORD_BYTES

Prints JSON: the number of records, and the latencies in nanoseconds, ascending. A latency has two parts. One is how
late the record was handed to librdkafka after it was due. The other is librdkafka's own figure for the record
(rd_kafka_message_latency: from that call to the server's answer), so that Python's delays do not count.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any, Final

from bench.macro.librdkafka import CONF_OK, COPY, ERROR_BYTES, PRODUCER, Message, library

SETTINGS: Final = {"acks": "all", "linger.ms": "0", "enable.idempotence": "false"}
SLEEP_SECONDS: Final = 0.0001
END_SECONDS: Final = 60.0
WARMUP_SECONDS: Final = 1.0

Delivered = CFUNCTYPE(None, c_void_p, POINTER(Message), c_void_p)


def declared() -> ctypes.CDLL:
    """Return the library with the functions that a single record needs."""
    found = library()
    for name, result, arguments in (
            ("rd_kafka_conf_set_dr_msg_cb", None, (c_void_p, Delivered)),
            ("rd_kafka_produce", c_int, (c_void_p, c_int32, c_int, c_char_p, c_size_t, c_void_p, c_size_t, c_void_p)),
            ("rd_kafka_poll", c_int, (c_void_p, c_int)),
            ("rd_kafka_message_latency", c_int64, (POINTER(Message),))):
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


def latencies(bootstrap: str, topic: str, partition: int, rate: float, seconds: float, record_bytes: int,
              warmup_seconds: float = WARMUP_SECONDS) -> list[int]:
    """Send a record every 1 / rate seconds, and return the latency of each that is due after the warm-up, in which the
    client connects. Raises RuntimeError when one fails."""
    kafka = declared()
    uncounted = int(rate * warmup_seconds)
    total = uncounted + int(rate * seconds)
    late = [0] * total
    found: list[tuple[int, int]] = []
    failed: list[int] = []

    def report(_client: int, message: Any, _opaque: int) -> None:
        record = message.contents
        if record.err:
            failed.append(record.err)
        else:
            found.append((record.opaque, late[record.opaque - 1] + kafka.rd_kafka_message_latency(message) * 1000))

    delivered = Delivered(report)              # alive until the client is destroyed
    error = ctypes.create_string_buffer(ERROR_BYTES)
    conf = kafka.rd_kafka_conf_new()
    for name, setting in {**SETTINGS, "bootstrap.servers": bootstrap}.items():
        if kafka.rd_kafka_conf_set(conf, name.encode(), setting.encode(), error, ERROR_BYTES) != CONF_OK:
            raise RuntimeError(f"librdkafka: {error.value.decode()}")
    kafka.rd_kafka_conf_set_dr_msg_cb(conf, delivered)
    client = kafka.rd_kafka_new(PRODUCER, conf, error, ERROR_BYTES)
    target = kafka.rd_kafka_topic_new(client, topic.encode(), None)
    value, interval_ns, number = bytes(record_bytes), 1e9 / rate, 0
    begin = time.monotonic_ns()
    deadline = begin + int((warmup_seconds + seconds + END_SECONDS) * 1e9)
    try:
        while len(found) < total and not failed and time.monotonic_ns() < deadline:
            while number < total and (wait := time.monotonic_ns() - begin - number * interval_ns) >= 0:
                late[number] = int(wait)
                if kafka.rd_kafka_produce(target, partition, COPY, value, len(value), None, 0, number + 1):
                    raise RuntimeError("librdkafka does not accept a record")
                number += 1
            kafka.rd_kafka_poll(client, 0)
            time.sleep(SLEEP_SECONDS)
    finally:
        kafka.rd_kafka_topic_destroy(target)
        kafka.rd_kafka_destroy(client)
    if failed or len(found) < total:
        raise RuntimeError(f"{len(failed)} records failed, and {total - len(found)} of {total} have no answer: "
                           f"error {failed[0] if failed else 0}")
    return sorted(latency for number, latency in found if number > uncounted)


def main() -> None:
    bootstrap, topic, partition, rate, seconds, record_bytes = sys.argv[1:]
    found = latencies(bootstrap, topic, int(partition), float(rate), float(seconds), int(record_bytes))
    json.dump({"records": len(found), "latencies_ns": found}, sys.stdout)


if __name__ == "__main__":
    main()
