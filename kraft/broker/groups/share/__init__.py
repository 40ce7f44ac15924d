"""Share groups (KIP-932): the coordinator assigns partitions, each to as many members as share it.

- `member`, `group` are the state; `records` are its changes.
- `heartbeats`, `assigning`, `states` are decisions: they change nothing.
- `serving` writes what was decided, answers, and has the clocks. `initializing` has the states of partitions created
  before they are assigned, and `removing` has them deleted before the group.
- `offsets` serves the requests of operators about start offsets; `requests` lists what is served.
"""
