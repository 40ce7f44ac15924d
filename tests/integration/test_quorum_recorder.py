"""Flight records of real controllers: requested while they run, and read from the files of one that was killed."""

import json
from pathlib import Path

import pytest

from kraft.cli.command import run
from tests.integration.admin import wait_until
from tests.integration.quorum import MakeQuorum, Quorum

FETCH_TIMEOUT_MS = 2000


def bootstrap(quorum: Quorum) -> str:
    return "--bootstrap=" + ",".join(node.controller_address for node in quorum.nodes.values())


def stood_early(capsys: pytest.CaptureFixture[str], quorum: Quorum, leader_id: int) -> bool:
    """Return whether some follower campaigned soon after its connection to the leader closed, and not after its fetch
    time-out of two seconds."""
    run(["quorum", "timeline", bootstrap(quorum), "--json"])
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    lost = {each["node"]: each["ms"] for each in entries
            if each["what"] == "loses its connection" and each["values"]["leader"] == leader_id}
    waited = [each["ms"] - lost[each["node"]] for each in entries if each["values"].get("role") == "Prospective"
              and each["what"] == "becomes" and each["ms"] >= lost.get(each["node"], 1 << 62)]
    return min(waited, default=FETCH_TIMEOUT_MS) < FETCH_TIMEOUT_MS // 2


def reported_subject(capsys: pytest.CaptureFixture[str], quorum: Quorum) -> str | None:
    """Return the subject that `kraft why` reports first; None while all is well."""
    code = run(["why", bootstrap(quorum), "--json"])
    out = capsys.readouterr().out
    return str(json.loads(out.splitlines()[0])["about"]) if code == 1 else None


def test_a_killed_leader_is_in_the_time_line(new_quorum: MakeQuorum, tmp_path: Path,
                                             capsys: pytest.CaptureFixture[str]) -> None:
    quorum = new_quorum(3)
    quorum.start()
    killed = quorum.leader
    killed.kill()
    epoch = quorum.describe().epoch
    capsys.readouterr()
    assert run(["quorum", "timeline", bootstrap(quorum), str(killed.directory)]) == 1
    printed = capsys.readouterr()
    assert f"node {killed.node_id}: 127.0.0.1:{killed.controller_port}: cannot connect" in printed.err
    leads = [line for line in printed.out.splitlines() if "becomes Leader" in line]
    assert f"{killed.node_id}  becomes Leader in epoch {epoch - 1}" in leads[-2]
    assert f"becomes Leader in epoch {epoch}" in leads[-1]
    assert f"loses its connection to the leader {killed.node_id}" in printed.out
    assert stood_early(capsys, quorum, killed.node_id)
    assert run(["quorum", "timeline", str(killed.directory), "--json"]) == 0
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["node"] for each in entries] == [killed.node_id] * len(entries)
    assert run(["why", bootstrap(quorum)]) == 1
    assert f"Voter {killed.node_id} is not caught up: it does not answer" in capsys.readouterr().out
    assert run(["why", f"{bootstrap(quorum)},127.0.0.1:1"]) == 1
    assert "\n127.0.0.1:1: cannot connect: " in capsys.readouterr().out
    assert run(["why", str(killed.directory)]) == 0
    assert f"Node {killed.node_id} leads epoch {epoch - 1}" in capsys.readouterr().out
    page = tmp_path / "page.html"
    killed.start()
    assert run(["quorum", "timeline", bootstrap(quorum), f"--out={page}"]) == 0
    assert page.read_text().endswith("</html>\n")
    for node in quorum.others:
        node.kill()
    capsys.readouterr()
    # The remaining leader leads on until it has received nothing from a majority for a time.
    wait_until(lambda: reported_subject(capsys, quorum) == "leader", "nobody leads")
