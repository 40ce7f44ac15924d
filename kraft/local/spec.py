"""What the launcher is told about a node that it is to start; goes to it as JSON."""

import json
from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class VoterSpec:
    """One of the first voters; `directory_id` as the files write it."""

    node_id: int
    host: str
    port: int
    directory_id: str


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """`settings`: Kafka's keys. `host`: where its connections come from. `log`: where standard error goes, appended.
    `cluster_id`: empty when the directories are formatted already; `voters`: whom they are formatted with. `deaf_to`,
    `shut_to`: links that are cut (see `agent`)."""

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
