"""`kraft features` against a node."""

import pytest

from kraft.cli.features import level_text, metadata_level, wanted_levels
from kraft.client.features import Feature, Features, UpgradeType
from kraft.config.errors import InvalidConfigError
from kraft.metadata.versions import LATEST, METADATA_VERSION
from tests.cli.nodes import Tool


def levels(tool: Tool) -> dict[str, int]:
    return {row["feature"]: row["level"] for row in tool.json("features", "describe")}


def test_down_and_up_again(tool: Tool) -> None:
    before = levels(tool)
    assert before[METADATA_VERSION] == LATEST.level
    assert before["share.version"] == 1
    assert tool.run("features", "disable", "--feature", "share.version", "--dry-run") == (
        0, "share.version: was 1, would be set to 0\n", "")
    assert levels(tool) == before
    assert tool.json("features", "disable", "--feature", "share.version") == [
        {"feature": "share.version", "before": 1, "level": 0, "result": "set"}]
    assert levels(tool)["share.version"] == 0
    assert tool.run("features", "upgrade", "--release-version", LATEST.name.partition("-")[0])[0] == 0
    assert levels(tool) == before
    code, out, complaints = tool.run("features", "describe")
    assert (code, complaints) == (0, "")
    assert level_text(METADATA_VERSION, LATEST.level) in out


def test_refused_as_a_whole(tool: Tool) -> None:
    before = levels(tool)
    for words, says in (
        (("upgrade", "--feature", "share.version=1", "--feature", "none.version=1"), "none.version"),
        (("upgrade", "--feature", "share.version=0"),
         "Can't downgrade the version of this feature without setting the upgrade type"),
        (("downgrade", "--metadata", "3.3-IV3"), "it might delete metadata information"),
        (("downgrade", "--feature", "share.version=9"), "only supports versions 0-1"),
    ):
        code, out, complaint = tool.run("features", *words)
        assert (code, out) == (1, ""), words
        assert says in complaint
    assert levels(tool) == before
    assert tool.run("features", "upgrade")[0] == 2
    assert tool.run("features", "upgrade", "--metadata", "4.3", "--feature", "share.version=1")[0] == 2


NOW = Features({name: Feature(name, 0, 30, level) for name, level in (
    (METADATA_VERSION, 25), ("group.version", 1), ("share.version", 0), ("kraft.version", 1), ("streams.version", 1),
)}, 7)


def test_levels_of_a_release() -> None:
    assert wanted_levels("4.3", None, (), NOW, UpgradeType.UPGRADE) == {METADATA_VERSION: 30, "share.version": 1}
    assert wanted_levels("3.8", None, (), NOW, UpgradeType.SAFE_DOWNGRADE) == {
        METADATA_VERSION: 20, "group.version": 0, "streams.version": 0}
    assert wanted_levels(None, "4.0-IV2", (), NOW, UpgradeType.UPGRADE) == {METADATA_VERSION: 24}
    assert wanted_levels(None, None, ("a.version=3", f"{METADATA_VERSION}=4.2-IV0"), NOW, UpgradeType.UPGRADE) == {
        "a.version": 3, METADATA_VERSION: 28}


@pytest.mark.parametrize(("text", "level"), [("4.3", 30), ("4.3.1", 30), ("4.0", 25), ("3.7-IV2", 17), ("23", 23)])
def test_metadata_versions(text: str, level: int) -> None:
    assert metadata_level("--metadata", text) == level


@pytest.mark.parametrize("text", ["9.9", "1", "99", "x", "4.3-IV9"])
def test_no_metadata_versions(text: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"is none of 3.3-IV3 to 4.3-IV0"):
        metadata_level("--metadata", text)


@pytest.mark.parametrize("text", ["share.version", "=1", "share.version=4.3", "a b=1"])
def test_no_assignments(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="is not NAME=LEVEL"):
        wanted_levels(None, None, (text,), NOW, UpgradeType.UPGRADE)
    with pytest.raises(InvalidConfigError, match="given twice"):
        wanted_levels(None, None, ("a=1", "a=2"), NOW, UpgradeType.UPGRADE)
