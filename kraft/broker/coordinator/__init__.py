"""Common parts of all coordinators: state per partition of an internal topic, changed only by records of that
partition.

- `shard` is the loop of one partition: it writes, replays, and holds answers until they may leave.
- `shards` is the set of them: it loads and unloads them and finds the one that serves a key.
- `coordinator` is the part that all coordinators share: the driver's calls, and the dispatch of requests.
- `timers` holds the deadlines.
- `answer` is the path of one request's response; `gather` collects the parts of one that several shards answer.

Group and transaction coordinators are state machines on top.
"""
