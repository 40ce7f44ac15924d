"""Share coordinator: each shard has the states of share partitions of one partition of `__share_group_state` (KIP-932).

A share partition is a partition of a topic as one share group reads it. Its state says which records the group need not
get again.

- `batches` has ranges of offsets with one delivery state, and combines them.
- `state` has the state of one share partition, `records` its bytes, `shard` the states of one partition.
- `upkeep` keeps the log short: snapshots of idle share partitions, and the removal of records that nothing needs.
- `coordinator` connects them to requests and to the driver, `responses` creates answers.
- `persister` is the way to the coordinators of all brokers: it divides, merges and repeats requests.
"""
