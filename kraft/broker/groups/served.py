"""Groups of one partition of `__consumer_offsets` that this node serves."""

from __future__ import annotations

from collections.abc import Mapping

from kraft.broker.groups import expiry
from kraft.broker.groups.classic.group import ClassicGroup
from kraft.broker.groups.classic.rebalancing import prepare_rebalance, restart_session
from kraft.broker.groups.consumer import serving
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.shard import GroupShard
from kraft.broker.groups.share.group import ShareGroup


class ServedGroups(GroupShard):
    """Shard whose clocks run once it is loaded."""

    def loaded(self) -> None:
        """Give every member a whole session time-out to contact the coordinator again."""
        for group in list(self.groups.values()):
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    restart_session(self, group, member)
                if len(group.members) > self.config.group_max_size:
                    prepare_rebalance(self, group)
            elif isinstance(group, ConsumerGroup):
                serving.start(self, group)
            elif isinstance(group, ShareGroup):
                # Imported here, as below: a node without such groups starts without what serves them.
                from kraft.broker.groups.share.serving import start
                start(self, group)
            else:
                from kraft.broker.groups.streams.serving import start as start_streams
                start_streams(self, group)
        expiry.schedule(self)

    def partitions_deleted(self, partitions: Mapping[tuple[str, int], None]) -> None:
        """Delete the offsets for deleted partitions, and their states in share groups, during the next ticks."""
        expiry.delete_partitions(self, partitions)
        expiry.drop_states(self)
