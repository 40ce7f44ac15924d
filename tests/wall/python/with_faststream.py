"""Copy one topic to another with FastStream: `with_faststream.py BOOTSTRAP SOURCE TARGET GROUP DIRECTORY`."""

import asyncio
import sys

from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker, KafkaMessage

bootstrap, source, target, group, _ = sys.argv[1:]
broker = KafkaBroker(bootstrap.split(","), acks="all", enable_idempotence=True)


@broker.subscriber(source, group_id=group, auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR)
@broker.publisher(target)
async def copy(message: KafkaMessage) -> bytes:
    return b"seen " + message.body


asyncio.run(FastStream(broker).run())
