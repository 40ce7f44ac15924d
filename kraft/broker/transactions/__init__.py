"""Transaction coordinator: each shard has the transactional ids of one partition of `__transaction_state`.

- `state` has a transaction and its transitions, `records` their bytes, `shard` the transactions of one partition.
- `init_producer`, `partitions` and `ending` decide what a request does: they return the next state, or refuse.
- `markers` collects the markers that are due per broker; `completion` ends a transaction after its last marker.
- `expiry` removes unused ids, `queries` describes and lists.
- `coordinator` connects them to requests and to the driver.

A decision reads a transaction and returns its next value. The shard writes that value, and it is in force once it is
appended. Markers are sent only after the record of the decision is committed.
"""
