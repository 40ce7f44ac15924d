"""UpdateFeatures."""

from typing import Any

import pytest

from kraft.controller.features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.broker_registration_request import Feature
from kraft.protocol.messages.clear_elr_record import ClearElrRecord
from kraft.protocol.messages.feature_level_record import FeatureLevelRecord
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.controller.world import World


def update(world: World, *updates: tuple[str, int, int], version: int = 2, **fields: Any) -> Any:
    return world.send(UpdateFeaturesRequest(feature_updates=[
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates
    ], **fields), version)


@pytest.mark.parametrize(("name", "level", "kind", "code"), [
    ("metadata.version", 30, UPGRADE, ErrorCode.NONE),
    ("metadata.version", 99, UPGRADE, ErrorCode.INVALID_UPDATE_VERSION),
    ("metadata.version", 29, UPGRADE, ErrorCode.INVALID_UPDATE_VERSION),
    ("metadata.version", 29, SAFE_DOWNGRADE, ErrorCode.INVALID_UPDATE_VERSION),
    ("metadata.version", 29, UNSAFE_DOWNGRADE, ErrorCode.INVALID_UPDATE_VERSION),
    ("group.version", 0, SAFE_DOWNGRADE, ErrorCode.NONE),
    ("group.version", 0, UPGRADE, ErrorCode.INVALID_UPDATE_VERSION),
    ("group.version", 2, UPGRADE, ErrorCode.INVALID_UPDATE_VERSION),
    ("group.version", 1, 9, ErrorCode.INVALID_UPDATE_VERSION),
    ("group.version", -1, SAFE_DOWNGRADE, ErrorCode.INVALID_UPDATE_VERSION),
    ("no.such.feature", 1, UPGRADE, ErrorCode.INVALID_UPDATE_VERSION),
    ("kraft.version", 2, UPGRADE, ErrorCode.INVALID_UPDATE_VERSION),
    ("kraft.version", 0, SAFE_DOWNGRADE, ErrorCode.INVALID_UPDATE_VERSION),
])
def test_levels(name: str, level: int, kind: int, code: int) -> None:
    world = World()
    world.join(1)
    before = world.image.features
    answer = update(world, (name, level, kind))
    assert (answer.error_code, bool(answer.error_message)) == (code, bool(code))
    assert world.image.features == (before if code else {k: v for k, v in {**before, name: level}.items() if v})


def test_the_level_in_the_quorums_own_records_may_be_requested_again() -> None:
    world = World()
    world.join(1)
    before = world.log.end_offset
    assert update(world, ("kraft.version", 1, UPGRADE), ("metadata.version", 30, UPGRADE)).error_code == ErrorCode.NONE
    assert [getattr(message, "name", "") for message in world.log.messages(before)] == ["metadata.version"]


def test_the_quorums_own_level_goes_up_when_its_voters_are_ready() -> None:
    world = World()
    world.join(1)
    world.log.kraft_version, world.log.voters_are_ready = 0, False
    before = world.log.end_offset
    answer = update(world, ("kraft.version", 1, UPGRADE), ("group.version", 0, SAFE_DOWNGRADE))
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_UPDATE_VERSION, "voters have not reported")
    assert update(world, ("kraft.version", 1, UPGRADE), validate_only=True).error_code == ErrorCode.NONE
    assert (world.log.kraft_version, world.log.end_offset) == (0, before)
    world.log.voters_are_ready = True
    answers: list[Any] = []
    world.controller.submit(UpdateFeaturesRequest(feature_updates=[
        FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=UPGRADE)]), 2, 0, answers.append)
    world.controller.committed(world.log.end_offset - 1, 0)
    assert (world.log.kraft_version, answers) == (1, []), "answered when it is committed"
    world.commit()
    assert answers[0].error_code == ErrorCode.NONE


def test_all_or_none() -> None:
    world = World()
    world.join(1)
    before = world.log.end_offset
    answer = update(world, ("group.version", 0, SAFE_DOWNGRADE), ("share.version", 7, UPGRADE))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert update(world, ("group.version", 0, SAFE_DOWNGRADE), validate_only=True).error_code == ErrorCode.NONE
    assert world.log.end_offset == before
    answer = update(world, ("group.version", 0, SAFE_DOWNGRADE), version=1)
    assert [(result.feature, result.error_code) for result in answer.results] == [("group.version", ErrorCode.NONE)]


def test_the_last_update_of_a_feature_counts() -> None:
    """Kafka does the same, also when an earlier update is not allowed."""
    world = World()
    world.join(1)
    before = world.log.end_offset
    answer = update(world, ("group.version", 9, UPGRADE), ("share.version", 1, UPGRADE),
                    ("group.version", 0, SAFE_DOWNGRADE), version=1)
    assert [(result.feature, result.error_code) for result in answer.results] == [
        ("group.version", ErrorCode.NONE), ("share.version", ErrorCode.NONE)]
    assert world.log.messages(before) == [FeatureLevelRecord(name="group.version", feature_level=0),
                                          FeatureLevelRecord(name="share.version", feature_level=1)]


def test_upgrades_and_downgrades_of_the_metadata_version() -> None:
    world = World(metadata_level=25)
    world.join(1)
    assert update(world, ("metadata.version", 24, SAFE_DOWNGRADE)).error_code == ErrorCode.NONE
    answer = update(world, ("metadata.version", 22, SAFE_DOWNGRADE))     # 4.0-IV1 brought ELR
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert update(world, ("metadata.version", 30, UPGRADE)).error_code == ErrorCode.NONE
    assert world.image.metadata_version.name == "4.3-IV0"


def test_eligible_leader_replicas_on_and_off() -> None:
    world = World(metadata_level=23)
    world.join(1)
    name = "eligible.leader.replicas.version"
    assert not world.image.elr_enabled
    assert update(world, (name, 1, UPGRADE)).error_code == ErrorCode.NONE
    assert world.image.configs[next(iter(world.image.configs))] == {"min.insync.replicas": "1"}
    assert update(world, (name, 0, SAFE_DOWNGRADE)).error_code == ErrorCode.NONE
    assert world.log.messages()[-1] == ClearElrRecord(topic_name="")
    old = World(metadata_level=22)
    assert update(old, (name, 1, UPGRADE)).error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_every_broker_must_support_the_level() -> None:
    world = World(metadata_level=22)
    world.register(1, features=[each for each in broker_features(world) if each.name != "transaction.version"])
    answer = update(world, ("transaction.version", 1, UPGRADE))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Broker 1 does not support" in answer.error_message


def broker_features(world: World) -> list[Any]:
    return [Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in world.settings.features.items()]


@pytest.mark.parametrize(("name", "level", "kind", "text"), [
    ("metadata.version", 18, UPGRADE, ("Invalid update version 18 for feature metadata.version. Can't downgrade the "
     "version of this feature without setting the upgrade type to either safe or unsafe downgrade.")),
    ("metadata.version", 31, SAFE_DOWNGRADE, ("Invalid update version 31 for feature metadata.version. Local "
     "controller 1 only supports versions 7-30")),
    ("metadata.version", 30, SAFE_DOWNGRADE, ("Invalid update version 30 for feature metadata.version. Can't downgrade "
     "to a newer version.")),
    ("metadata.version", 22, SAFE_DOWNGRADE, ("Unsupported metadata.version downgrade from 25 to 22. Refusing to "
     "perform the requested downgrade because it might delete metadata information.")),
    ("metadata.version", 22, UNSAFE_DOWNGRADE, ("Unsupported metadata.version downgrade from 25 to 22. Unsafe metadata "
     "downgrade is not supported in this version.")),
])
def test_refusals_have_the_wording_that_kafkas_tools_show(name: str, level: int, kind: int, text: str) -> None:
    world = World(metadata_level=25)
    world.join(1)
    answer = update(world, (name, level, kind))
    assert answer.error_message == (
        "The update failed for all features since the following feature had an error: " + text)
