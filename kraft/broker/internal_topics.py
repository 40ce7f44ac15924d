"""Topics that brokers create for themselves, with Kafka's settings for its own ones."""

from typing import TYPE_CHECKING, Final

from kraft.config.quorum_config import is_sole_controller
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from kraft.security.audit.kinds import AUDIT_TOPIC

if TYPE_CHECKING:
    from kraft.broker.broker import Broker

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = (OFFSETS_TOPIC, TRANSACTION_TOPIC, SHARE_STATE_TOPIC, AUDIT_TOPIC)

CREATE_TOPICS_VERSION: Final = 7
"""Version of the requests by which brokers have topics created."""
AUDIT_RETENTION_MS: Final = 30 * 24 * 60 * 60 * 1000


def is_internal(name: str) -> bool:
    """Return whether clients see the topic marked as internal."""
    return name in INTERNAL_TOPICS


def offsets_topic(broker: "Broker") -> CreatableTopic:
    """Return `__consumer_offsets` as this broker's settings define it.

    Where the replication factor is not set and one node is the only controller, Kafka's default of 3 is limited to the
    number of brokers. So a single node without configuration can have groups. Elsewhere the default applies unchanged,
    as in Kafka: a topic created while other brokers still start would have too few replicas permanently.
    """
    configs = {"cleanup.policy": "compact", "compression.type": "producer",
               "segment.bytes": str(broker.integer("offsets.topic.segment.bytes"))}
    return CreatableTopic(
        name=OFFSETS_TOPIC,
        num_partitions=broker.integer("offsets.topic.num.partitions"),
        replication_factor=_replication_factor(broker, "offsets.topic.replication.factor"),
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )


def transaction_topic(broker: "Broker") -> CreatableTopic:
    """Return `__transaction_state` as this broker's settings define it, with the same limit of its replicas.

    The minimum of in-sync replicas is limited too, where it is not set: one replica must be able to commit.
    """
    replication_factor = _replication_factor(broker, "transaction.state.log.replication.factor")
    min_isr = broker.integer("transaction.state.log.min.isr")
    if "transaction.state.log.min.isr" not in broker.config.texts:
        min_isr = min(min_isr, replication_factor)
    configs = {"cleanup.policy": "compact", "compression.type": "uncompressed",
               "unclean.leader.election.enable": "false", "min.insync.replicas": str(min_isr),
               "segment.bytes": str(broker.integer("transaction.state.log.segment.bytes"))}
    return CreatableTopic(
        name=TRANSACTION_TOPIC,
        num_partitions=broker.integer("transaction.state.log.num.partitions"),
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )


def share_state_topic(broker: "Broker") -> CreatableTopic:
    """Return `__share_group_state` as this broker's settings define it, with the same limits. It is not compacted, and
    nothing is retained by size or age: the share coordinator removes what it does not need."""
    replication_factor = _replication_factor(broker, "share.coordinator.state.topic.replication.factor")
    min_isr = broker.integer("share.coordinator.state.topic.min.isr")
    if "share.coordinator.state.topic.min.isr" not in broker.config.texts:
        min_isr = min(min_isr, replication_factor)
    configs = {"cleanup.policy": "delete", "compression.type": "producer", "min.insync.replicas": str(min_isr),
               "retention.bytes": "-1", "retention.ms": "-1",
               "segment.bytes": str(broker.integer("share.coordinator.state.topic.segment.bytes"))}
    return CreatableTopic(
        name=SHARE_STATE_TOPIC,
        num_partitions=broker.integer("share.coordinator.state.topic.num.partitions"),
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )


def audit_topic(broker: "Broker") -> CreatableTopic:
    """Return `__kraft_audit`, to which brokers write their audit. Its records are kept for a month, unless an operator
    sets something else for the topic."""
    configs = {"cleanup.policy": "delete", "retention.ms": str(AUDIT_RETENTION_MS)}
    return CreatableTopic(
        name=AUDIT_TOPIC,
        num_partitions=broker.integer("kraft.audit.topic.num.partitions"),
        replication_factor=_replication_factor(broker, "kraft.audit.topic.replication.factor"),
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )


def own_topic(broker: "Broker", name: str) -> CreatableTopic | None:
    """Return the topic that brokers create with settings of its own; None for other names."""
    definition = {OFFSETS_TOPIC: offsets_topic, TRANSACTION_TOPIC: transaction_topic,
                  SHARE_STATE_TOPIC: share_state_topic, AUDIT_TOPIC: audit_topic}.get(name)
    return None if definition is None else definition(broker)


def _replication_factor(broker: "Broker", setting: str) -> int:
    wanted = broker.integer(setting)
    if setting in broker.config.texts or not is_sole_controller(broker.config):
        return wanted
    return min(wanted, max(1, len(broker.image.brokers)))
