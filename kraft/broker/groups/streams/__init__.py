"""Groups of the streams protocol (KIP-1071): StreamsGroupHeartbeat and StreamsGroupDescribe.

| module | what it has |
|---|---|
| `tasks`, `topology`, `member`, `group`, `records` | the state of a group, and the records that change it |
| `configuring` | partitions of internal topics, tasks of each subtopology |
| `assignor`, `assigning`, `reconciling` | target of a group, and a member's steps towards it |
| `heartbeats`, `serving`, `endpoints`, `describing`, `requests` | decisions about requests, and their answers |
"""
