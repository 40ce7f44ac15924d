"""The answers to ApiVersions, prepared in advance: compiled code sends them without a call.

Up to version 3, features whose lowest level is 0 are hidden, because clients of those versions refuse them (KIP-1022).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from kraft.protocol.api import Api
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

FIRST_VERSION_WITH_ZERO_MINIMUM: Final = 4
TELEMETRY_KEYS: Final = (71, 72)
"""Announced only with a receiver of client metrics, as in Kafka; without one the requests are answered."""


class ApiVersionsAnswers(NamedTuple):
    """Bodies by version: the answer and the refusal of a client that does not name itself. `unsupported` refuses a
    version that is not served (in version 0)."""

    answers: dict[int, bytes]
    invalid: dict[int, bytes]
    unsupported: bytes


def served_versions(api: Api, versions: range, unstable: Collection[int] = ()) -> range:
    """Return the versions of an API that a listener serves: the stable ones of `versions`, and all that the API has if
    it is one of `unstable`."""
    if api.key in unstable:
        return api.versions
    return range(versions.start, min(versions.stop, api.latest_stable + 1))


def api_versions_answers(keys: Iterable[int], supported: Mapping[str, tuple[int, int]], finalized: Mapping[str, int],
                         epoch: int, *, controller: bool = False, telemetry: bool = False,
                         unstable: Collection[int] = ()) -> ApiVersionsAnswers:
    """Encode all answers.

    - `keys`: the APIs that a listener serves.
    - `supported`: lowest and highest level of each feature.
    - `finalized`: the cluster's levels as of the metadata offset `epoch`.
    - `telemetry`: whether client metrics are received.
    - `unstable`: those of the APIs that are served in their unstable version too.
    """
    apis = []
    for key in sorted(key for key in keys if telemetry or key not in TELEMETRY_KEYS):
        api = API_BY_KEY[key]
        versions = api.controller_versions if controller else api.broker_versions
        versions = served_versions(api, api.versions if versions is None else versions, unstable)
        apis.append(ApiVersion(api_key=key, min_version=versions.start, max_version=versions.stop - 1))
    finalized_keys = [FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                      for name, level in finalized.items() if level]

    def answer(version: int, code: ErrorCode) -> bytes:
        features = [SupportedFeatureKey(name=name, min_version=low, max_version=high)
                    for name, (low, high) in supported.items()
                    if low or version >= FIRST_VERSION_WITH_ZERO_MINIMUM]
        refused = code != ErrorCode.NONE
        return ApiVersionsResponse(
            error_code=code, api_keys=[] if refused else apis, supported_features=[] if refused else features,
            finalized_features_epoch=-1 if refused else epoch,
            finalized_features=[] if refused else finalized_keys).encode(version)

    own = API_BY_KEY[ApiKey.API_VERSIONS]
    unsupported = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=own.key, min_version=own.versions.start, max_version=own.latest_stable)])
    return ApiVersionsAnswers(
        {version: answer(version, ErrorCode.NONE) for version in own.versions},
        {version: answer(version, ErrorCode.INVALID_REQUEST) for version in own.versions},
        unsupported.encode(0))
