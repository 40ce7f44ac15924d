"""Copy one topic to another with Quix Streams: `with_quix.py BOOTSTRAP SOURCE TARGET GROUP DIRECTORY`."""

import sys

from quixstreams import Application

bootstrap, source, target, group, directory = sys.argv[1:]
app = Application(broker_address=bootstrap, consumer_group=group, auto_offset_reset="earliest", commit_interval=0.5,
                  processing_guarantee="exactly-once", state_dir=directory, auto_create_topics=False)
received = app.topic(source, key_deserializer="bytes", value_deserializer="bytes")
copied = app.topic(target, key_serializer="bytes", value_serializer="bytes")
app.dataframe(received).apply(lambda value: b"seen " + value).to_topic(copied)
app.run()
