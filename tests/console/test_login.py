"""Visitors that log in to a console of a secured node: SCRAM over TLS, their own rights, their name in the audit."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from kraft.cli.command import run
from tests.cli.nodes import END_SECONDS, command
from tests.console.browsers import TOKEN
from tests.integration.admin import wait_until
from tests.integration.test_secured_node import SecuredNode
from tools.tree import ROOT

PASSWORD: Final = "correct horse"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    node = SecuredNode(tmp_path_factory.mktemp("console-secured"))
    node.start()
    (node.secrets / "ann.password").write_text(f"{PASSWORD}\n")
    admin = ["--client-config", str(node.secrets / "admin.properties")]
    for user in ("app", "ann"):
        assert run(["users", "add", user, "--password-file", str(node.secrets / f"{user}.password"), *admin]) == 0
    for rights in (["--allow-principal", "User:app", "--operation", "describe", "--topic", "*"],
                   ["--allow-principal", "User:app", "--operation", "describe", "--cluster"],
                   ["--allow-principal", "User:ann", "--operation", "create", "--operation", "describe", "--topic",
                    "ann-", "--resource-pattern-type", "prefixed"]):
        assert run(["acls", "add", *rights, *admin]) == 0
    yield node
    node.stop()


@contextmanager
def served(secured: SecuredNode) -> Iterator[str]:
    """The command, which has the identity of `app`."""
    arguments = command("console", "--allow-changes", "--listen", "127.0.0.1:0", "--timeout", "20",
                        "--client-config", secured.secrets / "app.properties")
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.fullmatch(r"console: (http://\S+)/\n", process.stdout.readline())
        try:
            assert found is not None
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(END_SECONDS)


def token_of(client: httpx2.Client, path: str) -> str:
    found = TOKEN.search(client.get(path).text)
    assert found is not None
    return found[1]


def log_in(client: httpx2.Client, password: str, mechanism: str = "SCRAM-SHA-256") -> httpx2.Response:
    return client.post("/login", data={"token": token_of(client, "/login"), "username": "ann", "password": password,
                                       "mechanism": mechanism, "to": "/topics"})


def events(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def users_of(secured: SecuredNode, topic: str) -> list[str]:
    """Users of the events that name a topic."""
    return [each["actor"]["user"]["name"] for each in events(secured.audit_file)
            if any(resource["name"] == topic for resource in each.get("resources", ()))]


def test_changes_are_made_and_audited_as_the_visitor(secured: SecuredNode) -> None:
    with served(secured) as address, httpx2.Client(base_url=address, timeout=60) as client:
        assert "Every partition has a leader" in client.get("/").text
        assert "Log in" in client.get("/topics").text
        refused = client.post("/change/create-topic", data={"topic": "ann-early", "partitions": "1"})
        assert refused.status_code == 403
        for wrong in (log_in(client, "wrong"), log_in(client, PASSWORD, "PLAIN")):
            assert wrong.status_code == 403
            assert 'role="alert"' in wrong.text and PASSWORD not in wrong.text
        done = log_in(client, PASSWORD)
        assert (done.status_code, done.headers["location"]) == (303, "/topics")
        assert "HttpOnly" in done.headers["set-cookie"] and PASSWORD not in done.headers["set-cookie"]
        assert "<span>ann</span>" in client.get("/topics").text
        token = token_of(client, "/topics")
        done = client.post("/change/create-topic", data={"topic": "ann-made", "partitions": "2", "token": token})
        assert (done.status_code, done.headers.get("location")) == (303, "/topics/ann-made"), done.text
        refused = client.post("/change/create-topic", data={"topic": "other", "partitions": "1", "token": token})
        assert refused.status_code == 403
        assert "TOPIC_AUTHORIZATION_FAILED" in refused.text
        wait_until(lambda: users_of(secured, "other") != [], "the audit has both", END_SECONDS)
        client.post("/logout", data={"token": token})
        late = client.post("/change/create-topic", data={"topic": "ann-late", "partitions": "1", "token": token})
        assert late.status_code == 403
    assert set(users_of(secured, "ann-made")) == {"ann"}
    assert set(users_of(secured, "other")) == {"ann"}
    assert users_of(secured, "ann-early") == users_of(secured, "ann-late") == []
