"""The group coordinator: classic consumer groups and the offsets that groups committed.

`coordinator` takes requests and splits them by partition of `__consumer_offsets` (`group_queries` those about several
groups); `shard` is the state of one partition, with the decisions in `joining`, `rebalancing`, `syncing`,
`offset_requests`, `admin` and `expiry`; `group`, `member`, `foreign` and `offsets` are that state, `group_records` its
records.
"""
