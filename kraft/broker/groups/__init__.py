"""Group coordinator: groups of consumers, and the offsets that groups committed.

- `coordinator` receives requests and splits them by partition of `__consumer_offsets`; `group_queries` does so for
  requests about several groups.
- `shard` is the state of one partition: groups, `foreign` groups and `offsets`. `group_records` are its records.
- `classic` has what only the classic protocol needs. All kinds of groups share the other modules.
- The decisions about offsets and whole groups are in `offset_requests`, `admin` and `expiry`.
"""
