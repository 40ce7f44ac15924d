"""A group member in a process of its own, so that it can be killed.

`python -m tests.integration.member ADDRESS GROUP TOPIC [NAME=VALUE ...]`; the remaining arguments are settings of
librdkafka. It reports what it saw in lines of JSON: ["committing", [[partition, offset], ...]] before a commit and
["committed", ...] after it. If it is killed in between, it is unknown whether it committed.
"""

import json
import sys

import confluent_kafka


def main(address: str, group: str, topic: str, *settings: str) -> None:
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
        **dict(each.split("=", 1) for each in settings)})
    consumer.subscribe([topic])
    while True:
        messages = [each for each in consumer.consume(100, 0.1) if each.error() is None]
        if messages:
            seen = [[each.partition(), each.offset()] for each in messages]
            print(json.dumps(["committing", seen]), flush=True)
            consumer.commit(asynchronous=False)
            print(json.dumps(["committed", seen]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
