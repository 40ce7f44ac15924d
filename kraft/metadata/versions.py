"""Levels of `metadata.version` and of the other features (KIP-584, KIP-778): their names, and the records that they
write.

A record is written at the version that the cluster's metadata.version names, so that every replica of the cluster can
read it. Sources: Kafka's `MetadataVersion` and `Feature` as of 4.3.1.
"""

from typing import Final, NamedTuple

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
TRANSACTION_VERSION: Final = "transaction.version"


class MetadataVersion(NamedTuple):
    """One level. `changes_metadata`: a downgrade below it could lose records, so it is refused."""

    level: int
    name: str
    changes_metadata: bool
    register_broker_record: int
    partition_record: int

    @property
    def partition_change_record(self) -> int:
        """Version of PartitionChangeRecord: both record types always got their new versions together."""
        return self.partition_record

    @property
    def in_controlled_shutdown(self) -> bool:
        return self.register_broker_record >= 1

    @property
    def directories(self) -> bool:
        """True if partitions record in which log directory each replica is (KIP-858)."""
        return self.partition_record >= 1

    @property
    def elr(self) -> bool:
        """True if records can carry eligible leader replicas (KIP-966)."""
        return self.partition_record >= 2

    @property
    def cordoned_log_dirs(self) -> bool:
        return self.register_broker_record >= 4

    @property
    def scram(self) -> bool:
        return self.level >= 11

    @property
    def epoch_bump_on_isr_shrink(self) -> bool:
        """True if a shrinking ISR raises the leader epoch, as it did before 3.6."""
        return self.level < 12

    @property
    def transactions(self) -> bool:
        """True if the records between BeginTransactionRecord and EndTransactionRecord are applied together or not at
        all (KIP-868)."""
        return self.level >= 13

    @property
    def delegation_tokens(self) -> bool:
        return self.level >= 14

    @property
    def controller_registration(self) -> bool:
        return self.level >= 15


METADATA_VERSIONS: Final = tuple(MetadataVersion(*row) for row in (
    (7, "3.3-IV3", True, 1, 0),
    (8, "3.4-IV0", True, 2, 0),
    (9, "3.5-IV0", False, 2, 0),
    (10, "3.5-IV1", False, 2, 0),
    (11, "3.5-IV2", True, 2, 0),
    (12, "3.6-IV0", False, 2, 0),
    (13, "3.6-IV1", True, 2, 0),
    (14, "3.6-IV2", True, 2, 0),
    (15, "3.7-IV0", True, 2, 0),
    (16, "3.7-IV1", False, 2, 0),
    (17, "3.7-IV2", True, 3, 1),
    (18, "3.7-IV3", False, 3, 1),
    (19, "3.7-IV4", False, 3, 1),
    (20, "3.8-IV0", False, 3, 1),
    (21, "3.9-IV0", False, 3, 1),
    (22, "4.0-IV0", False, 3, 1),
    (23, "4.0-IV1", True, 3, 2),
    (24, "4.0-IV2", False, 3, 2),
    (25, "4.0-IV3", False, 3, 2),
    (26, "4.1-IV0", False, 3, 2),
    (27, "4.1-IV1", False, 3, 2),
    (28, "4.2-IV0", False, 3, 2),
    (29, "4.2-IV1", False, 3, 2),
    (30, "4.3-IV0", True, 4, 2),
))
BY_LEVEL: Final = {version.level: version for version in METADATA_VERSIONS}
MINIMUM: Final = METADATA_VERSIONS[0]
LATEST: Final = METADATA_VERSIONS[-1]


class Feature(NamedTuple):
    """Feature with levels from 0 to `latest`. `defaults`: (metadata.version level, feature level) steps, ascending.

    `requires`: for a level, the metadata.version level that it needs.
    """

    name: str
    latest: int
    defaults: tuple[tuple[int, int], ...]
    requires: tuple[tuple[int, int], ...] = ()

    def default_for(self, metadata_level: int) -> int:
        """Return the level of a cluster that is formatted with that metadata.version."""
        return max((level for since, level in self.defaults if since <= metadata_level), default=0)


FEATURES: Final = {feature.name: feature for feature in (
    Feature(ELR_VERSION, 1, ((26, 1),), requires=((1, 23),)),
    Feature(GROUP_VERSION, 1, ((22, 1),)),
    Feature(KRAFT_VERSION, 1, ((21, 1),)),
    Feature(SHARE_VERSION, 1, ((28, 1),)),
    Feature(STREAMS_VERSION, 1, ((29, 1),)),
    Feature(TRANSACTION_VERSION, 2, ((24, 2),)),
)}

# Levels that a kraft node supports, by feature: (lowest, highest level). Kafka lists the same for 4.3.1.
SUPPORTED: Final[dict[str, tuple[int, int]]] = {
    METADATA_VERSION: (MINIMUM.level, LATEST.level),
    **{name: (0, feature.latest) for name, feature in FEATURES.items()},
}


def default_features(metadata_level: int) -> dict[str, int]:
    """Return the features that a cluster is formatted with: metadata.version first, then the others by name.
    kraft.version is not among them, because it is stored in control records."""
    levels = {METADATA_VERSION: metadata_level}
    for name in sorted(FEATURES):
        level = FEATURES[name].default_for(metadata_level)
        if name != KRAFT_VERSION and level > 0:
            levels[name] = level
    return levels
