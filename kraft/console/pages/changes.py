"""Changes of the cluster, each by a form. They use the visitor's own credentials."""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

from kraft.client import Cluster
from kraft.client.configs import Change, Operation, alter_configs
from kraft.client.groups import commit_offsets, committed_offsets, delete_group
from kraft.client.partitions import EARLIEST, LATEST, list_all_offsets
from kraft.client.refusals import check
from kraft.client.topics import create_topic
from kraft.console.clock import parse_time
from kraft.console.visits import NotFoundError, Redirect, Visit
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kraft_native.base.errors import InvalidArgumentError

PARTITIONS_MAX: Final = 10_000
REPLICAS_MAX: Final = 100

Action = Callable[[Visit, Cluster], tuple[str, str]]
"""Returns the page that shows the result, and a sentence."""


def change(visit: Visit) -> Redirect:
    """Run one change. Raises `ForbiddenError` without a login, and the cluster's refusal."""
    session = visit.check_changes()
    action = ACTIONS.get(visit.path["action"])
    if action is None:
        raise NotFoundError(f"change {visit.path['action'][:40]}")
    with visit.cluster() as cluster:
        to, sentence = action(visit, cluster)
    session.notices.append(sentence)
    visit.console.recent.clear()
    return Redirect(to)


def _text(visit: Visit, name: str) -> str:
    found = visit.form.get(name, "").strip()
    if not found:
        raise InvalidArgumentError(f"{name}: it is empty")
    return found


def _number(visit: Visit, name: str, maximum: int) -> int:
    text = _text(visit, name)
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= maximum:
        raise InvalidArgumentError(f"{name}: {text[:40]!r} is not a number of 1 to {maximum:,}")
    return int(text)


def _confirmed(visit: Visit, name: str) -> str:
    """Return the name of what is deleted, which the visitor typed again."""
    found = _text(visit, name)
    if visit.form.get("confirm", "").strip() != found:
        raise InvalidArgumentError(f"confirm: type {found!r} to delete it")
    return found


def _topic_link(topic: str) -> str:
    return f"/topics/{quote(topic, safe='')}"


def _create_topic(visit: Visit, cluster: Cluster) -> tuple[str, str]:
    topic = _text(visit, "topic")
    partitions = _number(visit, "partitions", PARTITIONS_MAX)
    replicas = _number(visit, "replicas", REPLICAS_MAX) if visit.form.get("replicas", "").strip() else -1
    create_topic(cluster, topic, partitions, replicas)
    return _topic_link(topic), f"Topic {topic} exists with {partitions:,} partitions."


def _delete_topic(visit: Visit, cluster: Cluster) -> tuple[str, str]:
    topic = _confirmed(visit, "topic")
    controller = cluster.controller()
    version = controller.version(DeleteTopicsRequest.API_KEY)
    request = DeleteTopicsRequest(timeout_ms=int(cluster.timeout * 1000), topics=[DeleteTopicState(name=topic)]) \
        if version >= 6 else DeleteTopicsRequest(timeout_ms=int(cluster.timeout * 1000), topic_names=[topic])
    for each in controller.send(request, DeleteTopicsResponse).responses:
        check(f"topic {topic}", each.error_code, each.error_message)
    return "/topics", f"Topic {topic} was deleted."


def _add_partitions(visit: Visit, cluster: Cluster) -> tuple[str, str]:
    topic, count = _text(visit, "topic"), _number(visit, "partitions", PARTITIONS_MAX)
    request = CreatePartitionsRequest(timeout_ms=int(cluster.timeout * 1000), topics=[
        CreatePartitionsTopic(name=topic, count=count, assignments=None)])
    for each in cluster.controller().send(request, CreatePartitionsResponse).results:
        check(f"topic {topic}", each.error_code, each.error_message)
    return _topic_link(topic), f"Topic {topic} has {count:,} partitions."


def _set_config(visit: Visit, cluster: Cluster) -> tuple[str, str]:
    topic, name, value = _text(visit, "topic"), _text(visit, "name"), visit.form.get("value", "").strip()
    operation = Operation.DELETE if not value else Operation.SET
    alter_configs(cluster, "topic", topic, [Change(name, operation, value or None)])
    done = f"is {value}" if value else "has its inherited value again"
    return _topic_link(topic), f"{name} of topic {topic} {done}."


def _reset_group(visit: Visit, cluster: Cluster) -> tuple[str, str]:
    group, to = _text(visit, "group"), _text(visit, "to")
    committed = committed_offsets(cluster, group)
    names = list(dict.fromkeys(topic for topic, _ in committed))
    topics = cluster.metadata(names).topics if names else []
    starts = list_all_offsets(cluster, topics, dict.fromkeys(committed, EARLIEST))
    ends = list_all_offsets(cluster, topics, dict.fromkeys(committed, LATEST))
    if to in ("earliest", "latest"):
        targets = starts if to == "earliest" else ends
    else:
        moment = parse_time(to)
        if moment is None:
            raise InvalidArgumentError(f"to: {to[:60]!r} is not earliest, latest or a time such as "
                                       "2026-01-31T09:00:00")
        found = list_all_offsets(cluster, topics, dict.fromkeys(committed, moment))
        targets = {partition: ends[partition] if offset < 0 else offset for partition, offset in found.items()}
    commit_offsets(cluster, group, targets)
    return f"/groups/{quote(group, safe='')}", f"Group {group} continues at {to}."


def _delete_group(visit: Visit, cluster: Cluster) -> tuple[str, str]:
    group = _confirmed(visit, "group")
    delete_group(cluster, group)
    return "/groups", f"Group {group} was deleted with its offsets."


ACTIONS: Final[Mapping[str, Action]] = {
    "create-topic": _create_topic, "delete-topic": _delete_topic, "add-partitions": _add_partitions,
    "set-config": _set_config, "reset-group": _reset_group, "delete-group": _delete_group,
}
