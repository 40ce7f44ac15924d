"""One API of the protocol: its key, its versions, its headers, its messages."""

from dataclasses import dataclass

from kraft.protocol.message import Message
from kraft.protocol.registry import message_class

API_VERSIONS_KEY = 18


@dataclass(frozen=True, slots=True)
class Api:
    """`versions` are those that can be served and sent; the last may be ahead of `latest_stable` and is then not
    announced. `broker_versions` and `controller_versions` are what Kafka 4.3.1 announces on such a listener; None
    where it does not serve the API there. (Produce is announced from 0, for old clients' sake, and served from 3.)
    """

    key: int
    name: str
    versions: range
    latest_stable: int
    flexible_from: int
    broker_versions: range | None = None
    controller_versions: range | None = None
    # Needs the right to act as a node of the cluster.
    cluster_action: bool = False
    # A broker passes it on to the active controller.
    forwardable: bool = False
    # Ours: to be sent only to a peer that announces it.
    private: bool = False

    @property
    def request(self) -> type[Message]:
        """The class of its requests, imported when first asked for."""
        return message_class(f"{self.name}Request")

    @property
    def response(self) -> type[Message]:
        """The class of its responses, imported when first asked for."""
        return message_class(f"{self.name}Response")

    def request_header_version(self, version: int) -> int:
        """1, or 2 with tagged fields. Defined for versions that are not served too (an ApiVersions of the future)."""
        return 2 if version >= self.flexible_from else 1

    def response_header_version(self, version: int) -> int:
        """0, or 1 with tagged fields. Always 0 for ApiVersions, whose client cannot know yet what the server speaks."""
        return 1 if version >= self.flexible_from and self.key != API_VERSIONS_KEY else 0
