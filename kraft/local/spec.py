"""Parameters of a node that the launcher starts; sent to it as JSON."""

import json
from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class VoterSpec:
    """One of the first voters; `directory_id` as in the files."""

    node_id: int
    host: str
    port: int
    directory_id: str


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Parameters of one node.

    - `settings`: Kafka's keys.
    - `host`: source address of its connections.
    - `log`: file of standard error, appended.
    - `cluster_id`: empty when the directories are formatted already.
    - `voters`: the first voters to format with.
    - `deaf_to`, `shut_to`: cut links (see `agent`).
    """

    settings: dict[str, str]
    host: str
    log: str
    log_level: str
    cluster_id: str = ""
    voters: tuple[VoterSpec, ...] = ()
    deaf_to: tuple[str, ...] = ()
    shut_to: tuple[str, ...] = ()

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        fields = json.loads(data)
        fields["voters"] = tuple(VoterSpec(**each) for each in fields["voters"])
        fields["deaf_to"], fields["shut_to"] = tuple(fields["deaf_to"]), tuple(fields["shut_to"])
        return cls(**fields)
