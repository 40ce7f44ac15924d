"""Settings of the controller and of the metadata log, from the node's configuration."""

from kraft.config.authorizer_settings import authorizer_settings
from kraft.config.node_config import NodeConfig
from kraft.controller.decision import ControllerSettings
from kraft.metadata.versions import SUPPORTED
from kraft.runtime.storage.formatting import read_bootstrap
from kraft.runtime.storage.metadata_directory import MetadataLogSettings


def token_secret(config: NodeConfig) -> bytes:
    """Return the secret of delegation tokens; empty where they are switched off."""
    return str(config["delegation.token.secret.key"] or "").encode()


def controller_settings(config: NodeConfig, cluster_id: str) -> ControllerSettings:
    return ControllerSettings(
        node_id=config.node_id, cluster_id=cluster_id,
        bootstrap=tuple(read_bootstrap(config.metadata_log_dir)),
        default_partitions=config.integer("num.partitions"),
        default_replication_factor=config.integer("default.replication.factor"),
        delete_topics=bool(config["delete.topic.enable"]),
        broker_session_timeout_ms=config.integer("broker.session.timeout.ms"),
        disconnect_grace_ms=config.integer("kraft.broker.disconnect.grace.ms"),
        balance_interval_ms=(config.integer("leader.imbalance.check.interval.seconds") * 1000
                             if config["auto.leader.rebalance.enable"] else 0),
        unclean_interval_ms=config.integer("unclean.leader.election.interval.ms"),
        idle_interval_ms=config.integer("metadata.max.idle.interval.ms"),
        min_insync_replicas=str(config["min.insync.replicas"]),
        mutation_samples=config.integer("controller.quota.window.num"),
        mutation_sample_ms=1000 * config.integer("controller.quota.window.size.seconds"),
        token_secret=token_secret(config),
        token_life_max_ms=config.integer("delegation.token.max.lifetime.ms"),
        token_renewal_ms=config.integer("delegation.token.expiry.time.ms"),
        token_sweep_ms=config.integer("delegation.token.expiry.check.interval.ms"),
        has_authorizer=authorizer_settings(config.values) is not None,
        features=SUPPORTED)


def metadata_log_settings(config: NodeConfig) -> MetadataLogSettings:
    internal = config["internal.metadata.log.segment.bytes"]
    return MetadataLogSettings(
        segment_bytes=internal if isinstance(internal, int) else config.integer("metadata.log.segment.bytes"),
        segment_ms=config.integer("metadata.log.segment.ms"),
        snapshot_bytes=config.integer("metadata.log.max.record.bytes.between.snapshots"),
        snapshot_interval_ms=config.integer("metadata.log.max.snapshot.interval.ms"),
        strained_snapshot_bytes=config.integer("kraft.snapshot.strained.bytes"),
        strained_snapshot_interval_ms=config.integer("kraft.snapshot.strained.interval.ms"),
        retention_bytes=config.integer("metadata.max.retention.bytes"),
        retention_ms=config.integer("metadata.max.retention.ms"))
