"""Client ids by which brokers accept each other's events."""

from uuid import UUID

from kraft.metadata.image import EMPTY, BrokerRegistration, MetadataImage
from kraft.security.audit.writer import is_writer, writer_id


def broker(broker_id: int, incarnation: int) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id=broker_id, epoch=5, incarnation_id=UUID(int=incarnation), endpoints=(), features={}, rack=None,
        fenced=False, in_controlled_shutdown=False, is_migrating_zk_broker=False, log_dirs=(), cordoned_log_dirs=None)


def test_only_a_registered_incarnation_is_a_writer() -> None:
    image = MetadataImage(brokers={3: broker(3, 77), 4: broker(4, 78)})
    own = writer_id(broker(3, 77)).encode()
    assert own.startswith(b"broker-3-audit-")
    assert is_writer(image, own)
    for other in (writer_id(broker(3, 76)), writer_id(broker(5, 77)), writer_id(broker(4, 77))):
        assert not is_writer(image, other.encode())
    for text in (b"", b"broker-3-audit", b"__admin_client", own + b"0", own[:-1], own.upper(), b"\xff" * 70,
                 b"broker-99999999999-audit-" + b"0" * 64):
        assert not is_writer(image, text)
    assert not is_writer(EMPTY, own)
