"""One API of the protocol: its key, its versions, its headers, its messages."""

from dataclasses import dataclass

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.message import Message
from kraft.protocol.registry import message_class


@dataclass(frozen=True, slots=True)
class Api:
    """One API.

    `versions` are those that can be served and sent; the last may be ahead of `latest_stable` and is then not
    announced. `broker_versions` and `controller_versions` are what Kafka 4.3.1 announces on such a listener; None where
    it does not serve the API there. (Produce is announced from 0, for the sake of old clients, and served from 3.)
    """

    key: ApiKey
    name: str
    versions: range
    latest_stable: int
    flexible_from: int
    broker_versions: range | None = None
    controller_versions: range | None = None
    # Needs the right to act as a node of the cluster.
    cluster_action: bool = False
    # A broker forwards it to the active controller.
    forwardable: bool = False
    # An API of kraft, to be sent only to a peer that announces it.
    private: bool = False

    @property
    def request(self) -> type[Message]:
        """Class of its requests, imported at the first access."""
        return message_class(f"{self.name}Request")

    @property
    def response(self) -> type[Message]:
        """Class of its responses, imported at the first access."""
        return message_class(f"{self.name}Response")

    def request_header_version(self, version: int) -> int:
        """Return 1, or 2 with tagged fields. Defined for versions that are not served too (a future version of
        ApiVersions)."""
        return 2 if version >= self.flexible_from else 1

    def response_header_version(self, version: int) -> int:
        """Return 0, or 1 with tagged fields. Always 0 for ApiVersions, whose client does not know yet what the server
        supports."""
        return 1 if version >= self.flexible_from and self.key != ApiKey.API_VERSIONS else 0
