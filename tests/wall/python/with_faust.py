"""Copy one topic to another with Faust: `with_faust.py BOOTSTRAP SOURCE TARGET GROUP DIRECTORY`."""

import sys

import faust

bootstrap, source, target, group, directory = sys.argv[1:]
app = faust.App(group, broker=[f"kafka://{each}" for each in bootstrap.split(",")], value_serializer="raw",
                topic_partitions=4, topic_replication_factor=3, topic_disable_leader=True, datadir=directory,
                broker_commit_every=100, consumer_auto_offset_reset="earliest", web_enabled=False)
received = app.topic(source, value_serializer="raw", internal=False)
copied = app.topic(target, value_serializer="raw")


@app.agent(received)
async def copy(stream: faust.Stream) -> None:
    async for event in stream.events():
        await copied.send(key=event.key, value=b"seen " + event.value)


app.Worker(loglevel="WARN").execute_from_commandline()
