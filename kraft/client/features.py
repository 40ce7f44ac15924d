"""Levels of a cluster's features (KIP-584, KIP-778): read, raised and lowered."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from kraft.client.cluster import Cluster
from kraft.client.refusals import check
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.protocol.messages.update_features_response import UpdateFeaturesResponse


class UpgradeType(IntEnum):
    """Permitted direction of a change of level; an unsafe downgrade may lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Feature(NamedTuple):
    """A feature with the levels that the node supports, and the cluster's current level; 0 means disabled."""

    name: str
    minimum: int
    maximum: int
    level: int


class Features(NamedTuple):
    """All features by name, and the epoch of the finalized levels: the offset in the metadata log at which they hold.
    """

    features: dict[str, Feature]
    epoch: int


def describe_features(cluster: Cluster) -> Features:
    """Return the features as the first reachable node has them."""
    api = API_BY_KEY[ApiVersionsRequest.API_KEY]
    request = ApiVersionsRequest(client_software_name="kraft", client_software_version="1")
    version = min(api.latest_stable, cluster.any().versions[api.key][1])
    answer = cluster.any().send(request, ApiVersionsResponse, version=version)
    check("features", answer.error_code)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    names = sorted(dict.fromkeys([*levels, *supported]))
    return Features({name: Feature(name, *supported.get(name, (0, 0)), levels.get(name, 0)) for name in names},
                    answer.finalized_features_epoch)


def update_features(cluster: Cluster, levels: Mapping[str, int], kind: UpgradeType, *, validate_only: bool) -> None:
    """Set these levels, all of them or none. `RefusedError` names a refused one and the reason."""
    request = UpdateFeaturesRequest(
        timeout_ms=round(cluster.timeout * 1000), validate_only=validate_only,
        feature_updates=[FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=int(kind))
                         for name, level in levels.items()])
    answer = cluster.send(request, UpdateFeaturesResponse)
    check("features", answer.error_code, answer.error_message)
    for each in answer.results:
        check(f"feature {each.feature}", each.error_code, each.error_message)
