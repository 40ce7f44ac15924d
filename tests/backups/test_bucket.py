"""Backups in a bucket, on a server of the package index."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from kraft.client import Cluster
from kraft.runtime.server_node import ServerNode
from tests.backups.source import LISTENERS, Source, state_of
from tests.runtime.nodes import config, with_node
from tools.tree import ROOT

PLACE: Final = "s3://backups/prod"


class Bucket:
    """A server with an empty bucket, and the command in processes of its own, whose library leaves sockets behind."""

    def __init__(self, address: str) -> None:
        self.environment = {**os.environ, "AWS_ENDPOINT_URL_S3": address, "AWS_ACCESS_KEY_ID": "test",
                            "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
        self.python("import boto3; boto3.client('s3', region_name='us-east-1').create_bucket(Bucket='backups')")

    def python(self, program: str) -> str:
        return self._run("-c", program).stdout

    def command(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = self._run("-m", "kraft", "backup", *map(str, arguments), check=False)
        assert done.returncode == code, done.stderr
        return done

    def _run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *arguments], cwd=ROOT, env=self.environment, text=True, check=check,
                              capture_output=True)


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    server = subprocess.Popen([sys.executable, "-m", "tests.backups.s3_server"], cwd=ROOT, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert server.stdout is not None
    try:
        yield Bucket(server.stdout.readline().strip())
    finally:
        server.communicate("", timeout=30)


@pytest.mark.long
def test_a_backup_in_a_bucket(bucket: Bucket, tmp_path: Path) -> None:
    target = tmp_path / "restored"

    def source(cluster: Cluster, node: ServerNode) -> dict[str, Any]:
        Source(cluster).create()
        address = f"127.0.0.1:{node.listeners['PLAINTEXT'].port}"
        bucket.command("create", PLACE, "--name", "a", "--bootstrap", address)
        again = json.loads(bucket.command("create", PLACE, "--name", "b", "--bootstrap", address, "--json").stdout)
        assert again["bytes_read"] == 0
        return state_of(cluster)

    before = with_node(config(tmp_path / "source"), source)
    listed = [json.loads(line)["name"] for line in bucket.command("list", PLACE, "--json").stdout.splitlines()]
    assert listed == ["a", "b"]
    bucket.command("verify", PLACE, "a")
    bucket.command("restore", PLACE, "a", "--data", target, *LISTENERS)
    after = with_node(config(target), lambda cluster, _: state_of(
        cluster, {place: (found[-1][0] + 1 if found else 0) for place, found in before["records"].items()}))
    assert after == before
    bucket.python("import boto3; s3 = boto3.client('s3'); found = s3.list_objects_v2(Bucket='backups')['Contents']; "
                  "s3.delete_object(Bucket='backups', Key=next(each['Key'] for each in found "
                  "if 'segments/' in each['Key']))")
    assert "is missing" in bucket.command("verify", PLACE, "a", code=1).stderr


def test_a_bucket_that_does_not_exist(bucket: Bucket) -> None:
    done = bucket.command("list", "s3://none/prod", code=1)
    assert done.stderr.startswith("kraft: s3://none/prod/manifests")
    assert done.stderr.count("\n") == 1
