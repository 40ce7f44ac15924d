"""Group coordinator: classic consumer groups and the offsets that groups committed.

- `coordinator` receives requests and splits them by partition of `__consumer_offsets`; `group_queries` does so for
  requests about several groups.
- `shard` is the state of one partition.
- The decisions are in `joining`, `rebalancing`, `syncing`, `offset_requests`, `admin` and `expiry`.
- The state consists of `group`, `member`, `foreign` and `offsets`; `group_records` are its records.
"""
