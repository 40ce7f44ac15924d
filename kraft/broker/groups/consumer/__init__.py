"""Groups of the consumer protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe.

- `member` and `group` are the state, which only records change; `records` are those records.
- `heartbeats` decides what a heartbeat changes: it returns records and an answer. `reconciling` moves one member from
  its assignment to its target; `subscribing` finds what the members subscribe to; `regexes` resolves patterns.
- `assignors` compute target assignments in steps; `assigning` runs them for a group.
- `serving` writes what was decided, and has the clocks of the members.
"""
