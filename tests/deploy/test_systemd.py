"""The unit and its companions: systemd accepts them, the exposure is low, and the node reports what they expect."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kraft.cli.server_config import server_config
from kraft.config.properties import read_properties
from tools.tree import ROOT

DIRECTORY = ROOT / "deploy" / "systemd"
UNIT = DIRECTORY / "kraft.service"
EXPOSURE_MAX = 2.0

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")


def settings() -> dict[str, list[str]]:
    """Return the unit's settings by name, each with its values in their order."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if match := re.fullmatch(r"([A-Za-z]+)=(.*)", line):
            found.setdefault(match[1], []).append(match[2])
    return found


def analyze(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, check=False,
                          timeout=60)


@needs_systemd
def test_the_unit_is_verified(tmp_path: Path) -> None:
    """A copy names a program that exists here."""
    copy = tmp_path / "kraft.service"
    copy.write_text(UNIT.read_text().replace("/usr/bin/kraft", "/bin/true").replace("User=kraft\nGroup=kraft\n", ""))
    done = analyze("verify", "--man=no", "--recursive-errors=no", copy)
    assert (done.returncode, done.stderr) == (0, "")
    copy.write_text(f"{copy.read_text()}\n[Service]\nWatchdogSex=1\n")
    assert "WatchdogSex" in analyze("verify", "--man=no", "--recursive-errors=no", copy).stderr


@needs_systemd
def test_its_exposure_is_low() -> None:
    done = analyze("security", "--offline=true", "--no-pager", f"--threshold={round(EXPOSURE_MAX * 10)}", UNIT)
    found = re.search(r"Overall exposure level for \S+: (\S+)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) <= EXPOSURE_MAX
    assert done.returncode == 0


def test_the_unit_expects_what_the_node_reports() -> None:
    found = settings()
    assert found["Type"] == ["notify"]
    assert found["NotifyAccess"] == ["main"]
    assert found["WatchdogSec"] == ["30s"]
    assert "AF_UNIX" in found["RestrictAddressFamilies"][0].split(), "the socket of the notifications"


def test_the_file_of_the_unit_is_a_valid_configuration() -> None:
    command, = settings()["ExecStart"]
    path = command.partition("--config ")[2]
    assert command == f"/usr/bin/kraft server start --config {path}"
    assert path == "/etc/kraft/server.properties"
    config = server_config(ROOT / "deploy" / "server.properties", None, None, [])
    assert not config.warnings
    assert [str(each) for each in config.log_dirs] == ["/var/lib/kraft"]
    assert config.log_dirs[0].name in settings()["StateDirectory"]
    assert config["kraft.metrics.listener"] == "127.0.0.1:9404"
    assert str(config["kraft.log.file"]).startswith(f"/var/log/{settings()['LogsDirectory'][0]}/")


def test_the_container_has_a_valid_configuration() -> None:
    path = ROOT / "deploy" / "container.properties"
    config = server_config(path, None, None, [])
    assert not config.warnings
    text = (ROOT / "deploy" / "Containerfile").read_text()
    exposed = re.search(r"^EXPOSE (.*)$", text, re.MULTILINE)
    assert exposed is not None
    ports = {str(each.port) for each in config.listeners} | {str(config["kraft.metrics.listener"]).rpartition(":")[2]}
    assert set(exposed[1].split()) == ports
    assert read_properties(path)["log.dirs"].startswith("/var/lib/kraft/")


@pytest.mark.parametrize(("name", "directory"), [("kraft.sysusers", "sysusers"), ("kraft.tmpfiles", "tmpfiles")])
def test_users_and_directories(name: str, directory: str, tmp_path: Path) -> None:
    """Both programs create everything below another root."""
    program = shutil.which(f"systemd-{directory}")
    if program is None:
        pytest.skip(f"needs systemd-{directory}")
    (tmp_path / "etc").mkdir()
    if directory == "tmpfiles":
        (tmp_path / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\nkraft:x:990:990::/var/lib/kraft:/bin/sh\n")
        (tmp_path / "etc" / "group").write_text("root:x:0:\nkraft:x:990:\n")
        options = ["--create", "--dry-run"] if "--dry-run" in subprocess.run(
            [program, "--help"], capture_output=True, text=True, check=True).stdout else ["--create"]
    else:
        options = []
    done = subprocess.run([program, *options, f"--root={tmp_path}", str(DIRECTORY / name)], capture_output=True,
                          text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    if directory == "sysusers":
        assert "kraft:" in (tmp_path / "etc" / "passwd").read_text()
        assert "/var/lib/kraft:" in (tmp_path / "etc" / "passwd").read_text()
