"""Every file that a node reads at its start, damaged. The node either starts and serves what it has, or does not start.
Both times it names the wrong file in one sentence; in the second case also what to do."""

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.config.node_config import NodeConfig
from kraft.local.cluster import FILE_NAME, earlier
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.records import LeaderChange
from kraft.raft.types import ReplicaKey
from kraft.runtime.process import make_node
from kraft.runtime.quorum.raft_log import RaftLog
from kraft.runtime.quorum.state_file import QuorumStateFile, write_quorum_state
from kraft.runtime.server_node import ServerNode
from kraft.runtime.storage.formatting import formatted_identity
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME, START_MARK, VOTER_MARK, MetadataLogSettings
from kraft_native.base.errors import InvalidArgumentError, KraftError
from kraft_native.batch.batch import LENGTH_AT
from kraft_native.facade.log import Log
from kraft_native.segment.checkpoints import read_meta_properties
from tests.runtime.nodes import config, with_node
from tests.runtime.quorum.metadata_nodes import CLUSTER, NOW_MS, formatted
from tests.runtime.quorum.metadata_nodes import Node as MetadataNode
from tests.runtime.test_server_node import fetch, produce

WAYS_OUT = re.compile(r"[Rr]estore|delete|remove|migrate|write|copy|name another|mount")
DAMAGE = {"empty": b"", "braces": b"{}", "zeros": bytes(40), "garbage": b"\xff\x00not what it was\n"}
REFUSED = (
    "a/meta.properties", "a/bootstrap.checkpoint", f"a/{DIRECTORY_NAME}/quorum-state", f"a/{START_MARK}",
    f"b/{VOTER_MARK}",
)
"""Identity and votes: no node starts on a guess."""
NOTED = (
    "a/.kafka_cleanshutdown", "a/recovery-point-offset-checkpoint", "a/log-start-offset-checkpoint",
    "a/replication-offset-checkpoint", "b/meta.properties", f"a/{DIRECTORY_NAME}/{0:020}-{0:010}.checkpoint",
)
"""Files that the node's log names if they contain `garbage`."""
SERVED = (
    f"a/{DIRECTORY_NAME}/{0:020}-{0:010}.checkpoint", f"a/{DIRECTORY_NAME}/leader-epoch-checkpoint",
    f"a/{DIRECTORY_NAME}/partition.metadata", f"a/{DIRECTORY_NAME}/flight-recorder.jsonl", "a/.kafka_cleanshutdown",
    "a/recovery-point-offset-checkpoint", "a/log-start-offset-checkpoint", "a/replication-offset-checkpoint",
    "a/t-0/partition.metadata", "a/t-0/leader-epoch-checkpoint", "b/meta.properties",
)
"""Files derived from the logs, or never used for a decision. A directory beside the first one is offline without its
own file."""


def settings(top: Path) -> NodeConfig:
    return config(top, log_dirs=f"{top / 'a'},{top / 'b'}", cordoned_log_dirs=str(top / "b"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories of a node that stopped cleanly: `a` has the metadata log and a partition, `b` is beside it."""
    top = tmp_path_factory.mktemp("template")

    def fill(cluster: Cluster, _node: ServerNode) -> None:
        create_topic(cluster, "t", 1)
        assert produce(cluster, "t", b"kept").error_code == ErrorCode.NONE

    with_node(settings(top), fill)
    return top


def padded(line: str) -> str:
    """Return the line of an id with the padding that base64 has, and that Kafka reads."""
    is_id = line.startswith(("directory.id", "topic_id"))
    return line + "==" if is_id else line


def test_a_node_starts_with_padded_ids(tmp_path: Path) -> None:
    def fill(cluster: Cluster, node: ServerNode) -> tuple[object, ...]:
        create_topic(cluster, "t", 1)
        assert produce(cluster, "t", b"kept").error_code == ErrorCode.NONE
        return tuple(node.parts.storage.logs.directory_ids)

    before = with_node(config(tmp_path), fill)
    for name in ("meta.properties", "t-0/partition.metadata"):
        file = tmp_path / name
        lines = file.read_text().splitlines()
        file.write_text("".join(f"{padded(line)}\n" for line in lines))
        assert file.read_text().count("==") == 1, lines

    def read(cluster: Cluster, node: ServerNode) -> tuple[object, ...]:
        assert fetch(cluster, "t") == [b"kept"]
        return tuple(node.parts.storage.logs.directory_ids)

    assert with_node(config(tmp_path), read) == before


def outcome(top: Path, file: Path) -> str:
    """Return `served`, `refused`, or what is wrong with the error text."""
    try:
        found = with_node(settings(top), lambda cluster, _node: fetch(cluster, "t"))
    except KraftError as error:
        text = str(error)
        is_sentence = "\n" not in text and str(file) in text and WAYS_OUT.search(text.replace(str(file), ""))
        return "refused" if is_sentence else f"complains: {text}"
    return "served" if found == [b"kept"] else f"serves {found}"


@pytest.mark.parametrize("name", [*REFUSED, *SERVED])
def test_a_damaged_file_is_named_or_not_needed(tmp_path: Path, template: Path, name: str,
                                               caplog: pytest.LogCaptureFixture) -> None:
    found = {}
    wanted = dict.fromkeys(DAMAGE, "refused") if name in REFUSED else {"garbage": "served"}
    if "meta.properties" in name:
        wanted |= {"empty": wanted["garbage"]}
    for kind in wanted:
        top = tmp_path / kind
        shutil.copytree(template, top)
        file = top / name
        assert file.exists(), f"no such file: {sorted(path.name for path in file.parent.iterdir())}"
        file.chmod(0o600)
        file.write_bytes(DAMAGE[kind])
        found[kind] = outcome(top, file)
    logged = caplog.text
    caplog.clear()
    if name in NOTED:
        assert Path(name).name in logged
    assert found == wanted


@pytest.mark.parametrize(("text", "complaint"), [
    ("version=0\nbroker.id=3\ncluster.id=abc\n", "version 0 is of a broker with ZooKeeper (broker.id 3); migrate"),
    ("broker.id=3\n", "version 0 is of a broker with ZooKeeper (broker.id 3); migrate"),
    ("version=0\n", "it names no node and no cluster; restore"),
    (f"version=1\ncluster.id={CLUSTER}\n", "node.id is missing; restore"),
    ("version=1\nnode.id=1\n", "cluster.id is missing; restore"),
    (f"version=1\nnode.id=x\ncluster.id={CLUSTER}\n", "node.id: 'x' is not a decimal number; restore"),
    (f"version=1\nnode.id=1\ncluster.id={CLUSTER}\ndirectory.id=abc\n", "directory.id: 'abc' is not an id"),
    (f"version=2\nnode.id=1\ncluster.id={CLUSTER}\n", "version: 2 is outside 0 to 1; restore"),
])
@pytest.mark.parametrize("roles", ["controller", "broker,controller", "broker"])
def test_unusable_identities_are_refused(tmp_path: Path, text: str, complaint: str, roles: str) -> None:
    formatted(tmp_path)
    (tmp_path / "meta.properties").write_text(text)
    listeners = [text for text in ("PLAINTEXT://127.0.0.1:0", "CONTROLLER://127.0.0.1:0")
                 if ("broker" if "PLAIN" in text else "controller") in roles]
    node = make_node(NodeConfig({
        "log.dirs": str(tmp_path), "process.roles": roles, "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER", "controller.quorum.bootstrap.servers": "127.0.0.1:9"}))
    with pytest.raises(KraftError, match=re.escape(complaint)) as raised:
        asyncio.run(node.start())
    assert str(raised.value).startswith(f"{tmp_path / 'meta.properties'}:")
    assert "\n" not in str(raised.value)


def test_a_directory_without_an_id_gets_one(tmp_path: Path) -> None:
    formatted(tmp_path)
    (tmp_path / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={CLUSTER}\n")
    assert formatted_identity(1, [tmp_path])[0] == CLUSTER
    found = read_meta_properties(tmp_path)
    assert found is not None
    assert found.directory_id is not None
    assert formatted_identity(1, [tmp_path])[1] == found.directory_id, "written once"


def test_a_metadata_log_whose_first_batch_lies_behind_its_start_is_refused(tmp_path: Path) -> None:
    """Kafka reads on from the first batch. An offset without a batch is missing committed metadata."""
    log = formatted(tmp_path) / DIRECTORY_NAME
    with Log(log, MetadataLogSettings(durability="per-append").log_config()) as whole:
        RaftLog(whole).append_control([LeaderChange(1, (ReplicaKey(1),), (ReplicaKey(1),))], 1, NOW_MS)
    segment = log / f"{0:020}.log"
    data = segment.read_bytes()
    segment.write_bytes((1).to_bytes(8, "big") + data[LENGTH_AT:])     # the base offset is outside the checksum
    write_quorum_state(log, QuorumStateFile(leader_id=1, leader_epoch=1))
    with pytest.raises(KraftError) as raised:
        MetadataNode(tmp_path)
    assert "\n" not in str(raised.value)
    assert str(log) in str(raised.value)
    assert WAYS_OUT.search(str(raised.value).replace(str(log), ""))
    assert segment.read_bytes()[:LENGTH_AT] == (1).to_bytes(8, "big"), "nothing is cut"


@pytest.mark.parametrize("text", [
    "", "{}", "[]", "not JSON", '{"cluster_id":"c","brokers":"1","controllers":0,"ports":{"1":{}}}',
    '{"cluster_id":"c","brokers":1,"controllers":0,"ports":{"1":{"PLAINTEXT":"x"}}}',
    '{"cluster_id":"c","brokers":1,"controllers":0,"ports":{}}',
    '{"cluster_id":"c","brokers":1,"controllers":0,"ports":3}',
])
def test_the_file_of_a_local_cluster_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(InvalidArgumentError, match=rf"{FILE_NAME}: it cannot be read.*; restore the file, or delete"):
        earlier(tmp_path / FILE_NAME, 1, 0)
    whole = {"cluster_id": "c", "brokers": 1, "controllers": 0, "ports": {"1": {"PLAINTEXT": 9092}}}
    (tmp_path / FILE_NAME).write_text(json.dumps(whole))
    assert earlier(tmp_path / FILE_NAME, 1, 0) == whole
