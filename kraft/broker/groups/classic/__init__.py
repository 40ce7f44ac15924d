"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

- `joining`, `rebalancing` and `syncing` make the decisions.
- `group` and `member` are the state of one group; `subscription` reads what a consumer subscribes to.
"""
