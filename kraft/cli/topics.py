"""`kraft topics`: the topics of any Kafka cluster."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import click

from kraft.cli.command import kraft
from kraft.cli.configs import without_effect
from kraft.cli.kafka_names import topic_argument, topics_argument
from kraft.cli.number_types import IntRange
from kraft.cli.options import Fields, cluster_options, count_of, on_cluster, print_json, print_rows, print_table
from kraft.cli.reassign import reassign_group
from kraft.cli.server_config import parse_assignments
from kraft.client import Cluster, RefusedError
from kraft.client.configs import SOURCE_TOPIC, describe_configs
from kraft.client.partitions import EARLIEST, LATEST, every, list_offsets
from kraft.client.refusals import check
from kraft.client.topics import wait_for_leaders
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.ids import id_text
from kraft.protocol.message import ZERO_UUID
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse

if TYPE_CHECKING:
    from kraft.protocol.messages.metadata_response import MetadataResponseTopic

DELETE_BY_STATE_VERSION: Final = 6

VALIDATE_ONLY: Final = click.option("--validate-only", is_flag=True,
                                    help="Only check whether the request would succeed.")


@kraft.group("topics")
def topics_group() -> None:
    """List, describe, create, delete and extend topics; move their replicas."""


topics_group.add_command(reassign_group)

@topics_group.command("list")
@click.option("--all", "internal", is_flag=True, help="Also internal topics.")
@on_cluster
def list_command(cluster: Cluster, internal: bool, as_json: bool) -> None:
    """List the topics."""
    found = sorted(cluster.metadata().topics, key=lambda topic: topic.name or "")
    rows = [{"topic": topic.name, "topic_id": _id_text(topic), "partitions": len(topic.partitions),
             "replication_factor": _replication_factor(topic), "internal": topic.is_internal}
            for topic in found if internal or not topic.is_internal]
    print_rows(as_json, rows, ("topic", "partitions", "replicas", "topic id"),
               [(row["topic"], row["partitions"], row["replication_factor"], row["topic_id"]) for row in rows])


@topics_group.command("describe")
@topics_argument
@click.option("--configs/--no-configs", "with_configs", default=True,
              help="Also the settings that the topic has of its own.")
@on_cluster
def describe_command(cluster: Cluster, topics: tuple[str, ...], with_configs: bool, as_json: bool) -> None:
    """Show partitions with their leaders, replicas and offsets, and the topic's own settings."""
    rows = list(describe_topics(cluster, topics, with_configs=with_configs))
    if as_json:
        print_json(rows)
        return
    for row in rows:
        partitions = row["partitions"]
        configs = ", ".join(f"{name}={value}" for name, value in row.get("configs", {}).items())
        click.secho(f"{row['topic']}: {count_of(len(partitions), 'partition')}, id {row['topic_id'] or '-'}", bold=True)
        if configs:
            click.echo(f"settings: {configs}")
        print_table(("partition", "leader", "epoch", "replicas", "in sync", "offline", "start", "end"),
                    [(each["partition"], each["leader"], each["leader_epoch"], each["replicas"], each["isr"],
                      each["offline"], each["start_offset"], each["end_offset"]) for each in partitions])


def describe_topics(cluster: Cluster, names: Iterable[str], *, with_configs: bool) -> Iterator[Fields]:
    """Yield the topics with their partitions and offsets. Raises `RefusedError` for a missing topic."""
    found = cluster.metadata(list(dict.fromkeys(names))).topics
    for topic in found:
        check(f"topic {topic.name}", topic.error_code)
    starts = list_offsets(cluster, found, every(found, EARLIEST))
    ends = list_offsets(cluster, found, every(found, LATEST))
    configs = describe_configs(cluster, "topic", [topic.name or "" for topic in found]) if with_configs else {}
    for topic in found:
        name = topic.name or ""
        row: Fields = {"topic": name, "topic_id": _id_text(topic), "internal": topic.is_internal}
        if with_configs:
            row["configs"] = {each.name: each.value for each in configs.get(name, ())
                              if each.config_source == SOURCE_TOPIC}
        row["partitions"] = [
            {"partition": each.partition_index, "leader": each.leader_id if each.leader_id >= 0 else None,
             "leader_epoch": each.leader_epoch, "replicas": each.replica_nodes, "isr": each.isr_nodes,
             "offline": each.offline_replicas, "start_offset": starts.get((name, each.partition_index)),
             "end_offset": ends.get((name, each.partition_index))}
            for each in sorted(topic.partitions, key=lambda each: each.partition_index)]
        yield row


@topics_group.command("create")
@topics_argument
@click.option("--partitions", type=IntRange(1), help="[default: the cluster's num.partitions]")
@click.option("--replication-factor", type=IntRange(1), help="[default: the cluster's]")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="A setting; may be given again.")
@click.option("--if-not-exists", is_flag=True, help="Leave an existing topic unchanged.")
@VALIDATE_ONLY
@cluster_options
def create_command(topics: tuple[str, ...], partitions: int | None, replication_factor: int | None,
                   configs: tuple[str, ...], if_not_exists: bool, validate_only: bool, bootstrap: str, timeout: float,
                   as_json: bool) -> None:
    """Create topics, and wait until their partitions have leaders."""
    settings = [CreatableTopicConfig(name=name, value=value)
                for name, value in parse_assignments(configs, "--config").items()]
    request = CreateTopicsRequest(timeout_ms=int(timeout * 1000), validate_only=validate_only, topics=[
        CreatableTopic(name=name, num_partitions=partitions or -1, replication_factor=replication_factor or -1,
                       configs=settings) for name in dict.fromkeys(topics)])
    with Cluster(bootstrap, timeout=timeout) as cluster:
        answers = cluster.controller().send(request, CreateTopicsResponse).topics
        created = [answer.name for answer in answers if answer.error_code == ErrorCode.NONE]
        warnings: dict[str, str] = {}
        if created and not validate_only:
            wait_for_leaders(cluster, created, timeout)
            warnings = without_effect(cluster, "topic", created[0], [each.name for each in settings])
    for text in () if as_json else warnings.values():
        click.echo(f"warning: {text}", err=True)
    skipped = (ErrorCode.TOPIC_ALREADY_EXISTS,) if if_not_exists else ()
    finish(as_json, "would be created" if validate_only else "created",
           [(answer.name, answer.error_code, answer.error_message,
             {"topic_id": None if answer.topic_id == ZERO_UUID else id_text(answer.topic_id),
              "partitions": answer.num_partitions, "replication_factor": answer.replication_factor,
              **({"warnings": list(warnings.values())} if warnings else {})})
            for answer in answers], skipped, "exists")


@topics_group.command("delete")
@topics_argument
@click.option("--if-exists", is_flag=True, help="Do not fail when a topic does not exist.")
@cluster_options
def delete_command(topics: tuple[str, ...], if_exists: bool, bootstrap: str, timeout: float, as_json: bool) -> None:
    """Delete topics with all their records."""
    names = list(dict.fromkeys(topics))
    with Cluster(bootstrap, timeout=timeout) as cluster:
        controller = cluster.controller()
        if controller.version(DeleteTopicsRequest.API_KEY) >= DELETE_BY_STATE_VERSION:
            request = DeleteTopicsRequest(timeout_ms=int(timeout * 1000),
                                          topics=[DeleteTopicState(name=name) for name in names])
        else:
            request = DeleteTopicsRequest(timeout_ms=int(timeout * 1000), topic_names=names)
        answers = controller.send(request, DeleteTopicsResponse).responses
    skipped = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,) if if_exists else ()
    finish(as_json, "deleted", [(each.name or "", each.error_code, each.error_message, {}) for each in answers],
           skipped, "does not exist")


@topics_group.command("alter")
@topic_argument
@click.option("--partitions", type=IntRange(1), required=True,
              help="New number of partitions, higher than the current one.")
@VALIDATE_ONLY
@cluster_options
def alter_command(topic: str, partitions: int, validate_only: bool, bootstrap: str, timeout: float,
                  as_json: bool) -> None:
    """Add partitions to a topic. From then on keys may go to other partitions than before."""
    request = CreatePartitionsRequest(
        timeout_ms=int(timeout * 1000), validate_only=validate_only,
        topics=[CreatePartitionsTopic(name=topic, count=partitions, assignments=None)])
    with Cluster(bootstrap, timeout=timeout) as cluster:
        answers = cluster.controller().send(request, CreatePartitionsResponse).results
        if not validate_only and all(answer.error_code == ErrorCode.NONE for answer in answers):
            wait_for_leaders(cluster, [topic], timeout, partitions)
    finish(as_json, f"{'would have' if validate_only else 'has'} {count_of(partitions, 'partition')}",
           [(each.name, each.error_code, each.error_message, {"partitions": partitions}) for each in answers])


def finish(as_json: bool, done: str, answers: Iterable[tuple[str, int, str | None, Fields]],
           skipped: tuple[int, ...] = (), skipped_text: str = "") -> None:
    """Report the result for each topic, refusals on standard error. Exit with 1 when there was a refusal."""
    refused = 0
    for name, code, message, more in answers:
        if code == ErrorCode.NONE or code in skipped:
            text = done if code == ErrorCode.NONE else skipped_text
            if as_json:
                print_json([{"topic": name, "result": text, **(more if code == ErrorCode.NONE else {})}])
            else:
                click.echo(f"{name}: {text}")
        else:
            refused += 1
            click.echo(f"kraft: {RefusedError(f'topic {name}', code, message)}", err=True)
    if refused:
        raise click.exceptions.Exit(1)


def _replication_factor(topic: "MetadataResponseTopic") -> int:
    return max((len(each.replica_nodes) for each in topic.partitions), default=0)


def _id_text(topic: "MetadataResponseTopic") -> str | None:
    return None if topic.topic_id == ZERO_UUID else id_text(topic.topic_id)
