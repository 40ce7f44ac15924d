"""The Debian package: its sources fit each other, and what `make deb` has built contains what it must."""

import re
import subprocess
from pathlib import Path

import pytest

from tools import deb, image, lock, sbom, wheel
from tools.tree import ROOT

DEBIAN = ROOT / "deploy" / "debian"


def test_every_file_of_it_exists() -> None:
    assert [name for name in deb.PLACES if not (deb.DEPLOY / name).is_file()] == []
    assert [name for name in deb.SCRIPTS if not (DEBIAN / name).read_text().startswith("#!/bin/sh\n")] == []


@pytest.mark.parametrize("name", deb.SCRIPTS)
def test_its_scripts_are_shell_scripts_that_end_at_an_error(name: str) -> None:
    done = subprocess.run(["sh", "-n", DEBIAN / name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nset -e\n" in (DEBIAN / name).read_text()


def test_its_account_and_directories_are_those_of_the_service() -> None:
    script = (DEBIAN / "postinst").read_text()
    for line in (ROOT / "deploy" / "systemd" / "kraft.tmpfiles").read_text().splitlines():
        if not line.startswith("#"):
            _, path, mode, owner, group, _ = line.split()
            found = re.search(rf"^ *install -d -o (\w+) -g (\w+) -m (\d+) .*{re.escape(path)}\b", script, re.MULTILINE)
            assert found is not None, path
            assert found.groups() == (owner, group, mode)
    assert "/var/lib/kraft" in script


def test_its_metadata_names_every_field() -> None:
    text = (DEBIAN / "control").read_text()
    filled = text.format(version="1-1", maintainer=deb.MAINTAINER, architecture="amd64", libc="2.34", installed_kib=1,
                         python="3.11", python_next="3.12")
    assert "Depends: adduser, libc6 (>= 2.34), libssl3 | libssl3t64, python3 (>= 3.11), python3 (<< 3.12)" in filled
    fields = [line.partition(":")[0] for line in filled.splitlines() if line and not line.startswith(" ")]
    assert {"Package", "Version", "Architecture", "Maintainer", "Installed-Size", "Depends"} <= set(fields)


def test_its_changelog_is_debians_own() -> None:
    """dpkg's own parser reads it."""
    done = subprocess.run(["dpkg-parsechangelog", "--file", "-", "--show-field", "Version"], check=False,
                          input=deb.debian_changelog("0.1.0-1"), capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0.1.0-1\n", "")


def test_the_image_has_no_file_of_the_host() -> None:
    assert all(not name.startswith("/") for name in (*image.FILES, *image.OMITTED, *deb.PLACES.values()))
    assert f"kraft:x:{image.USER_ID}:" in image.FILES["etc/passwd"]
    text = (ROOT / "deploy" / "Containerfile").read_text()
    assert f"--uid {image.USER_ID} " in text


def test_the_version_of_the_bill_is_the_packages() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", sbom.version())


@pytest.mark.long
def test_the_built_package() -> None:
    """`make deb` has built it: files, owners, and the digests of its files."""
    found = sorted(wheel.DIST.glob("kraft_*.deb"))
    if not found:
        pytest.skip("no package in dist: make deb")
    listed = subprocess.run(["dpkg-deb", "--contents", found[-1]], check=True, capture_output=True, text=True).stdout
    names = {line.split()[5].removeprefix("./"): line.split()[:2] for line in listed.splitlines()}
    assert {"usr/bin/kraft", "lib/systemd/system/kraft.service", "etc/kraft/server.properties",
            "usr/share/doc/kraft/sbom.json"} <= set(names)
    assert {owner for _, owner in names.values()} == {"root/root"}
    assert not [name for name in names if name.endswith(".pyc") or "/pip/" in name]
    assert str(ROOT) not in listed


@pytest.mark.long
def test_the_bill_of_materials(tmp_path: Path) -> None:
    pytest.importorskip("cyclonedx_py", reason="needs cyclonedx-bom: make sbom")
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    sbom.write_sbom(one, lock.node_requirements())
    sbom.write_sbom(other, lock.node_requirements())
    assert one.read_bytes() == other.read_bytes()
    text = one.read_text()
    assert '"bomFormat": "CycloneDX"' in text
    assert '"name": "zstandard"' in text
    assert "sha256" in text.lower() or "SHA-256" in text
