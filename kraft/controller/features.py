"""UpdateFeatures (KIP-584, KIP-778): levels of features go up when every node supports them, down when nothing is
lost."""

from typing import Final

from kraft.controller.configs import elr_safety_records
from kraft.controller.decision import Context, Decision, RefusedError, text_of
from kraft.metadata.image import Levels
from kraft.metadata.snapshot import Record
from kraft.metadata.versions import BY_LEVEL, ELR_VERSION, FEATURES, KRAFT_VERSION, METADATA_VERSION
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.clear_elr_record import ClearElrRecord
from kraft.protocol.messages.feature_level_record import FeatureLevelRecord
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3

# Kafka's wording: its tools show these texts, and scripts compare them.
NOTHING_UPDATED: Final = "The update failed for all features since the following feature had an error:"
NEEDS_DOWNGRADE_TYPE: Final = ("Can't downgrade the version of this feature without setting the upgrade type to "
                               "either safe or unsafe downgrade.")
LOSES_METADATA: Final = "Refusing to perform the requested downgrade because it might delete metadata information."
UNSAFE_UNSUPPORTED: Final = "Unsafe metadata downgrade is not supported in this version."

_UPGRADE_TYPE_SINCE: Final = 1
_RESULTS_UNTIL: Final = 1


def update_features(context: Context, request: UpdateFeaturesRequest) -> Decision[UpdateFeaturesResponse]:
    """Apply all updates of the request, or none: the first refusal refuses them all. The last update of a feature
    counts, as in Kafka."""
    updates = {update.feature: update for update in request.feature_updates}
    wanted = {METADATA_VERSION: context.image.metadata_version.level, **context.image.features}
    wanted |= {feature: update.max_version_level for feature, update in updates.items()}
    records: list[Record] = []
    for update in updates.values():
        try:
            records += _update(context, update, wanted)
        except RefusedError as refusal:
            message = f"{NOTHING_UPDATED} {refusal.message}"
            return Decision(_answer(context, request, refusal.error, message))
    answer = _answer(context, request, ErrorCode.NONE, None)
    if request.validate_only:
        return Decision(answer)
    kraft_version = wanted.get(KRAFT_VERSION, 0)
    return Decision(answer, records,
                    kraft_version=kraft_version if kraft_version > context.quorum().kraft_version else None)


def _answer(
    context: Context, request: UpdateFeaturesRequest, code: ErrorCode, message: str | None
) -> UpdateFeaturesResponse:
    results = [] if context.api_version > _RESULTS_UNTIL else [
        UpdatableFeatureResult(feature=feature, error_code=code, error_message=text_of(code, message))
        for feature in dict.fromkeys(update.feature for update in request.feature_updates)]
    return UpdateFeaturesResponse(error_code=code, error_message=text_of(code, message), results=results)


def update_features_refused(
    _request: UpdateFeaturesRequest, code: ErrorCode, message: str | None
) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=code, error_message=text_of(code, message))


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_UPDATE_VERSION, message)


def _invalid_level(name: str, level: int, reason: str) -> RefusedError:
    return _invalid(f"Invalid update version {level} for feature {name}. {reason}")


def _kind(context: Context, update: FeatureUpdateKey) -> int:
    if context.api_version >= _UPGRADE_TYPE_SINCE:
        return update.upgrade_type
    return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE


def _current(context: Context, name: str) -> int:
    if name == KRAFT_VERSION:
        return context.quorum().kraft_version
    return context.image.metadata_version.level if name == METADATA_VERSION else context.image.features.get(name, 0)


def _update(context: Context, update: FeatureUpdateKey, wanted: dict[str, int]) -> list[Record]:
    name, level, kind = update.feature, update.max_version_level, _kind(context, update)
    image = context.image
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid_level(name, level, f"Upgrade type {kind} is not 1, 2 or 3.")
    if level < 0:
        raise _invalid_level(name, level, "A level is 0 or more.")
    current = _current(context, name)
    check_supported(context, name, level)
    if level < current and kind == UPGRADE:
        raise _invalid_level(name, level, NEEDS_DOWNGRADE_TYPE)
    if level > current and kind != UPGRADE:
        raise _invalid_level(name, level, "Can't downgrade to a newer version.")
    if name == METADATA_VERSION:
        _check_metadata_version(current, level, unsafe=kind == UNSAFE_DOWNGRADE)
        for other, at in wanted.items():
            if other in FEATURES:
                _check_requirements(other, at, level)
    elif name == KRAFT_VERSION:
        if level < current:
            raise _invalid_level(name, level, f"The quorum's records cannot go back from level {current}.")
        return []
    else:
        _check_requirements(name, level, wanted[METADATA_VERSION])
    records = [Record(FeatureLevelRecord(name=name, feature_level=level))]
    if name == ELR_VERSION and level != current:
        records += (elr_safety_records(image, context.settings.min_insync_replicas) if level
                    else [Record(ClearElrRecord(topic_name=""))])
    return records


def check_supported(context: Context, name: str, level: int) -> None:
    """Check that this controller, every broker and every other controller support the level; else
    INVALID_UPDATE_VERSION."""
    nodes: list[tuple[str, Levels]] = [
        (f"Local controller {context.settings.node_id}", Levels(*context.settings.features.get(name, (0, 0))))]
    nodes += ((f"Broker {broker.broker_id}", broker.features.get(name, Levels(0, 0)))
              for broker in context.image.brokers.values())
    nodes += ((f"Controller {controller.controller_id}", controller.features.get(name, Levels(0, 0)))
              for controller in context.image.controllers.values()
              if controller.controller_id != context.settings.node_id)
    for node, levels in nodes:
        if levels == (0, 0) and level != 0:
            raise _invalid_level(name, level, f"{node} does not support this feature.")
        if not levels.minimum <= level <= levels.maximum:
            raise _invalid_level(name, level, f"{node} only supports versions {levels.minimum}-{levels.maximum}")


def _check_metadata_version(current: int, level: int, *, unsafe: bool) -> None:
    """Check that a downgrade only passes levels that changed nothing in the records."""
    if level not in BY_LEVEL:
        raise _invalid_level(METADATA_VERSION, level, "There is no such level.")
    if any(level < at <= current and version.changes_metadata for at, version in BY_LEVEL.items()):
        raise _invalid(f"Unsupported {METADATA_VERSION} downgrade from {current} to {level}. "
                       f"{UNSAFE_UNSUPPORTED if unsafe else LOSES_METADATA}")


def _check_requirements(name: str, level: int, metadata_level: int) -> None:
    for at, needed in FEATURES[name].requires if name in FEATURES else ():
        if level >= at and metadata_level < needed:
            raise _invalid_level(name, level, f"{name} {level} needs {METADATA_VERSION} {needed} or more, it is "
                                              f"{metadata_level}.")
