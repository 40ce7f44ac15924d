"""What every coordinator shares: state per partition of an internal topic, changed only by records of that partition.

`shard` is the loop of one partition (write, replay, hold answers back until they may leave), `shards` the set of them
(load, unload, which one serves a key), `timers` the deadlines, `answer` one request's way back. Group and transaction
coordinators are state machines on top.
"""
