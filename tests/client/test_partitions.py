"""Requests about many partitions: none is omitted silently."""

from typing import Any, cast

import pytest

from kraft.client import Cluster, RefusedError
from kraft.client.partitions import LATEST, list_all_offsets, list_offsets
from kraft.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic


def test_a_partition_without_a_leader() -> None:
    topics = [MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(partition_index=3, leader_id=-1)])]
    nobody = cast("Cluster", cast("Any", None))
    assert list_offsets(nobody, topics, {("t", 3): LATEST}) == {}
    with pytest.raises(RefusedError, match=r"partition t-3: .*LEADER_NOT_AVAILABLE"):
        list_all_offsets(nobody, topics, {("t", 3): LATEST})
