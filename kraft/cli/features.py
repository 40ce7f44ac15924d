"""`kraft features`: levels of a cluster's features, as `kafka-features.sh` shows and changes them."""

import re
from collections.abc import Callable
from typing import Final

import click

from kraft.cli.command import kraft
from kraft.cli.options import on_cluster, print_json, print_table
from kraft.client import Cluster
from kraft.client.features import Features, UpgradeType, describe_features, update_features
from kraft.config.errors import InvalidConfigError
from kraft.metadata.versions import BY_LEVEL, FEATURES, KRAFT_VERSION, METADATA_VERSION, METADATA_VERSIONS

Command = Callable[..., None]
_LEVEL: Final = re.compile(r"(?P<name>[^=\s]+)=(?P<level>\d+|[\d.]+(-IV\d+)?)")


def change_options(command: Command) -> Command:
    """Add the options that name the new levels, and `--dry-run`."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Only let the controller check it."),
        click.option("--feature", "assignments", multiple=True, metavar="NAME=LEVEL",
                     help="A feature and its level; may be given again. That of metadata.version may be a release."),
        click.option("--metadata", metavar="VERSION", help="The metadata.version, such as 4.3 or 4.3-IV0."),
        click.option("--release-version", "release", metavar="VERSION",
                     help="Every feature at the level that this release begins with."),
    ):
        command = option(command)
    return command


@kraft.group("features")
def features_group() -> None:
    """Show and change the levels of features, metadata.version among them."""


@features_group.command("describe")
@on_cluster
def describe_command(cluster: Cluster, as_json: bool) -> None:
    """Show the features: the levels that the node supports, and the cluster's current one."""
    found = describe_features(cluster)
    if as_json:
        print_json({"feature": each.name, "minimum": each.minimum, "maximum": each.maximum, "level": each.level,
                    "epoch": found.epoch} for each in found.features.values())
        return
    print_table(("feature", "minimum", "maximum", "level", "epoch"), [
        (each.name, level_text(each.name, each.minimum), level_text(each.name, each.maximum),
         level_text(each.name, each.level), found.epoch) for each in found.features.values()])


@features_group.command("upgrade")
@change_options
@on_cluster
def upgrade_command(cluster: Cluster, release: str | None, metadata: str | None, assignments: tuple[str, ...],
                    dry_run: bool, as_json: bool) -> None:
    """Raise levels, all of them or none. Every node must support them."""
    found = describe_features(cluster)
    levels = wanted_levels(release, metadata, assignments, found, UpgradeType.UPGRADE)
    _update(cluster, found, levels, UpgradeType.UPGRADE, dry_run=dry_run, as_json=as_json)


@features_group.command("downgrade")
@change_options
@click.option("--unsafe", is_flag=True, help="Also when that loses metadata.")
@on_cluster
def downgrade_command(cluster: Cluster, release: str | None, metadata: str | None, assignments: tuple[str, ...],
                      dry_run: bool, unsafe: bool, as_json: bool) -> None:
    """Lower levels, all of them or none. Refused where that would lose metadata."""
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    found = describe_features(cluster)
    levels = wanted_levels(release, metadata, assignments, found, kind)
    _update(cluster, found, levels, kind, dry_run=dry_run, as_json=as_json)


@features_group.command("disable")
@click.option("--feature", "names", multiple=True, required=True, metavar="NAME", help="May be given again.")
@click.option("--unsafe", is_flag=True, help="Also when that loses metadata.")
@click.option("--dry-run", is_flag=True, help="Only let the controller check it.")
@on_cluster
def disable_command(cluster: Cluster, names: tuple[str, ...], unsafe: bool, dry_run: bool, as_json: bool) -> None:
    """Lower features to level 0, all of them or none."""
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    found = describe_features(cluster)
    _update(cluster, found, dict.fromkeys(names, 0), kind, dry_run=dry_run, as_json=as_json)


def wanted_levels(release: str | None, metadata: str | None, assignments: tuple[str, ...], found: Features,
                  kind: UpgradeType) -> dict[str, int]:
    """Return the levels to set. Raises `InvalidConfigError` for an invalid version or assignment."""
    if sum((release is not None, metadata is not None, bool(assignments))) != 1:
        raise click.UsageError("give one of --release-version, --metadata and --feature")
    if release is not None:
        return _levels_of_release(metadata_level("--release-version", release), found, kind)
    if metadata is not None:
        return {METADATA_VERSION: metadata_level("--metadata", metadata)}
    levels: dict[str, int] = {}
    for text in assignments:
        match = _LEVEL.fullmatch(text)
        if match is None or (match["name"] != METADATA_VERSION and not match["level"].isdecimal()):
            raise InvalidConfigError(f"--feature: {text!r} is not NAME=LEVEL")
        if match["name"] in levels:
            raise InvalidConfigError(f"--feature: {match['name']} is given twice")
        levels[match["name"]] = metadata_level("--feature", match["level"]) if match["name"] == METADATA_VERSION else \
            int(match["level"])
    return levels


def _levels_of_release(metadata: int, found: Features, kind: UpgradeType) -> dict[str, int]:
    """Return the features that must change, in the direction of `kind`. The quorum's own version never decreases."""
    levels = {METADATA_VERSION: metadata, **{name: each.default_for(metadata) for name, each in FEATURES.items()}}
    now = {name: each.level for name, each in found.features.items()}
    if kind is UpgradeType.UPGRADE:
        return {name: level for name, level in levels.items()
                if name in now and (level > now[name] or name == METADATA_VERSION)}
    return {name: level for name, level in levels.items() if name in now and name != KRAFT_VERSION
            and (level < now[name] or name == METADATA_VERSION)}


def metadata_level(option: str, text: str) -> int:
    """Return the level of a metadata.version: by its number, its name (`4.3-IV0`), or the last of a release (`4.3`)."""
    if text.isdecimal() and int(text) in BY_LEVEL:
        return int(text)
    named = [each.level for each in METADATA_VERSIONS if text in (each.name, each.name.partition("-")[0])
             or text.startswith(f"{each.name.partition('-')[0]}.")]
    if not named:
        raise InvalidConfigError(f"{option}: {text!r} is none of {METADATA_VERSIONS[0].name} to "
                                 f"{METADATA_VERSIONS[-1].name}, and no release of theirs")
    return max(named)


def level_text(name: str, level: int) -> str:
    """Format a level; that of metadata.version has its name, too."""
    return f"{level} ({BY_LEVEL[level].name})" if name == METADATA_VERSION and level in BY_LEVEL else str(level)


def _update(cluster: Cluster, found: Features, levels: dict[str, int], kind: UpgradeType, *, dry_run: bool,
            as_json: bool) -> None:
    update_features(cluster, levels, kind, validate_only=dry_run)
    before = {name: found.features[name].level if name in found.features else 0 for name in levels}
    if as_json:
        print_json({"feature": name, "before": before[name], "level": level,
                    "result": "would be set" if dry_run else "set"} for name, level in levels.items())
        return
    for name, level in levels.items():
        verb = "would be set to" if dry_run else "is set to"
        click.echo(f"{name}: was {level_text(name, before[name])}, {verb} {level_text(name, level)}")
