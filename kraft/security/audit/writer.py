"""Names by which brokers know each other as writers of `__kraft_audit`.

The topic refuses records of clients. A broker that leads none of its partitions sends its events to one that does, by a
Produce under a client id that depends on the broker's incarnation. The metadata log has that, and no answer to a
client. A client that can read the metadata log can build the id, too; an authorizer keeps it from that.
"""

import re
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from kraft.metadata.image import BrokerRegistration, MetadataImage
from kraft.security.audit.kinds import AUDIT_TOPIC

_WRITER: Final = re.compile(rb"broker-([0-9]{1,10})-audit-[0-9a-f]{64}")


def writer_id(broker: BrokerRegistration) -> str:
    """Return the client id with which a broker writes events to another one."""
    digest = sha256(AUDIT_TOPIC.encode() + broker.incarnation_id.bytes).hexdigest()
    return f"broker-{broker.broker_id}-audit-{digest}"


def is_writer(image: MetadataImage, client_id: bytes) -> bool:
    """Return whether that is the client id of a registered broker's audit."""
    found = _WRITER.fullmatch(client_id)
    broker = None if found is None else image.brokers.get(int(found[1]))
    return broker is not None and compare_digest(writer_id(broker).encode(), client_id)
