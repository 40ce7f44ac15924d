"""The Debian package of a release: `make deb` builds `dist/kraft_VERSION_ARCHITECTURE.deb` from the wheel in `dist`.

    python -m tools.deb [--python /usr/bin/python3] [--twice]

The package has an environment of its own in /usr/lib/kraft: the wheel, and the locked packages of its extra `node`. Its
Python is the system's, so it is for the Debian release that it is built on. `deploy/debian` has the metadata and the
scripts of the package, `deploy/systemd` the unit and its account.

dpkg-deb builds it, with the time of the last commit, so that the same wheel gives the same bytes.
"""

import argparse
import email.utils
import gzip
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tools import lock
from tools.sbom import write_sbom
from tools.tree import ROOT
from tools.wheel import DIST, digest, release_time

WORK: Final = ROOT / "build" / "deb"
DEPLOY: Final = ROOT / "deploy"
HOME: Final = "usr/lib/kraft"
MAINTAINER: Final = "The maintainers of kraft <kraft@localhost>"
SCRIPTS: Final = ("postinst", "prerm", "postrm")
SETTINGS: Final = "etc/kraft/server.properties"
PLACES: Final = {
    "server.properties": SETTINGS,
    "systemd/kraft.service": "lib/systemd/system/kraft.service",
    "systemd/kraft.sysusers": "usr/lib/sysusers.d/kraft.conf",
    "systemd/kraft.tmpfiles": "usr/lib/tmpfiles.d/kraft.conf",
    "prometheus/kraft.rules.yml": "usr/share/doc/kraft/examples/kraft.rules.yml",
    "debian/copyright": "usr/share/doc/kraft/copyright",
    "debian/lintian-overrides": "usr/share/lintian/overrides/kraft",
}
"""Files of `deploy`, and where the package has them."""


def output(*command: object) -> str:
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout.strip()


def wheel_for(python: str) -> Path:
    """Return the newest wheel in `dist` for a Python. `SystemExit` says how to make one."""
    tag = output(python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])")
    found = sorted(DIST.glob(f"kraft-*-{tag}-{tag}-*linux*.whl"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise SystemExit(f"dist has no wheel for {python}: make wheel")
    return found[-1]


def install_packages(root: Path, python: str, wheel: Path) -> None:
    """Create the environment of the package, with the digests of the lock."""
    home = root / HOME
    subprocess.run([python, "-m", "venv", "--without-pip", "--symlinks", home], check=True)
    wanted = WORK / "node.lock"
    wanted.write_text(lock.part_for(lock.node_requirements()))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", home / "bin" / "python3", "install",
           "--quiet", "--no-compile", "--no-deps")
    subprocess.run([*pip, "--require-hashes", "-r", wanted], check=True)
    subprocess.run([*pip, "--no-index", wheel], check=True)


def settle(root: Path) -> None:
    """Make the environment independent of where it was created."""
    home = root / HOME
    for path in (home / "bin").iterdir():
        if not path.name.startswith("python") and path.name != "kraft":
            path.unlink()
    for path in (home / "bin").iterdir():
        if path.is_symlink() and path.name != "python3":
            path.unlink()
    (home / "bin" / "python3").unlink()
    (home / "bin" / "python3").symlink_to("../../../bin/python3")
    command = home / "bin" / "kraft"
    command.write_text(re.sub(r"\A#!.*\n", f"#!/{HOME}/bin/python3\n", command.read_text()))
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "kraft").symlink_to("../lib/kraft/bin/kraft")
    settings = home / "pyvenv.cfg"
    kept = [line for line in settings.read_text().splitlines() if not line.startswith(("command", "executable"))]
    settings.write_text("\n".join(kept) + "\n")
    for name in ("direct_url.json", "REQUESTED", "INSTALLER"):
        for path in home.rglob(name):
            path.unlink()
    for path in (home / "include", home / "lib64"):
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)
    for path in sorted(home.rglob("*.so")):
        if not path.parent.name.endswith(".libs"):      # auditwheel has moved their sections, which strip would undo
            subprocess.run(["strip", "--strip-unneeded", path], check=True)


def add_files(root: Path, version: str) -> None:
    """Add the unit, the settings and the documents."""
    for name, place in PLACES.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(DEPLOY / name, root / place)
    documents = root / "usr" / "share" / "doc" / "kraft"
    for name in ("README.md", "docs/operate", "docs/node.md", "docs/cluster.md", "docs/security.md", "docs/metrics.md"):
        source = ROOT / name
        (documents / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, documents / name)
    compress((DEPLOY / "debian" / "kraft.1").read_bytes(), root / "usr" / "share" / "man" / "man1" / "kraft.1.gz")
    compress((ROOT / "CHANGELOG.md").read_bytes(), documents / "changelog.gz")
    compress(debian_changelog(version).encode(), documents / "changelog.Debian.gz")
    write_sbom(documents / "sbom.json", lock.node_requirements())


def debian_changelog(version: str) -> str:
    """Return the package's own changelog, which names the release."""
    when = email.utils.format_datetime(datetime.fromtimestamp(release_time(), UTC))
    return f"kraft ({version}) unstable; urgency=medium\n\n  * Release.\n\n -- {MAINTAINER}  {when}\n"


def compress(content: bytes, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(content, 9, mtime=0))


def set_modes(root: Path) -> None:
    """Give every file the mode that its kind has, whatever the umask was."""
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            is_program = path.is_dir() or (path.stat().st_mode & stat.S_IXUSR and path.suffix != ".so")
            path.chmod(0o755 if is_program else 0o644)


def metadata(root: Path, version: str, python: str, wheel: Path) -> dict[str, str]:
    """Return the files of `DEBIAN` by name, scripts aside."""
    release = tuple(map(int, output(python, "-c", "import sys; print(*sys.version_info[:2])").split()))
    found = re.search(r"manylinux_(\d+)_(\d+)", wheel.name)
    assert found is not None, wheel.name
    paths = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {
        "control": (DEPLOY / "debian" / "control").read_text().format(
            version=version, maintainer=MAINTAINER, architecture=output("dpkg", "--print-architecture"),
            libc=f"{found[1]}.{found[2]}",
            installed_kib=sum(path.stat().st_size for path in paths) // 1024,
            python=f"{release[0]}.{release[1]}", python_next=f"{release[0]}.{release[1] + 1}"),
        "conffiles": f"/{SETTINGS}\n",
        "md5sums": "".join(f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  "
                           f"{path.relative_to(root)}\n" for path in paths if str(path.relative_to(root)) != SETTINGS),
    }


def build(python: str) -> Path:
    """Build the package into `dist` and return it."""
    wheel = wheel_for(python)
    version = wheel.name.split("-")[1]
    root = WORK / "root"
    shutil.rmtree(WORK, ignore_errors=True)
    root.mkdir(parents=True)
    install_packages(root, python, wheel)
    settle(root)
    add_files(root, f"{version}-1")
    set_modes(root)
    files = metadata(root, f"{version}-1", python, wheel)
    (root / "DEBIAN").mkdir()
    for name, text in files.items():
        (root / "DEBIAN" / name).write_text(text)
    for name in SCRIPTS:
        shutil.copyfile(DEPLOY / "debian" / name, root / "DEBIAN" / name)
        (root / "DEBIAN" / name).chmod(0o755)
    made = DIST / f"kraft_{version}-1_{output('dpkg', '--print-architecture')}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, made], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": str(release_time())})
    return made


def check(package: Path) -> bool:
    """Have lintian check the package, where it is installed; return whether it finds no error."""
    if shutil.which("lintian") is None:
        print("lintian: skipped, as it is not installed: apt-get install lintian")
        return True
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", "--tag-display-limit", "0", package],
                          capture_output=True, text=True, check=False)
    print(done.stdout, end="")
    print(f"lintian: {'no error' if done.returncode == 0 else 'errors'}")
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the Debian package of a release.")
    parser.add_argument("--python", default="/usr/bin/python3", help="the Python of the system [default: %(default)s]")
    parser.add_argument("--twice", action="store_true", help="build the package a second time, and compare")
    options = parser.parse_args()
    made = build(options.python)
    first = digest(made)
    print(f"dist/{made.name}: {made.stat().st_size:,} bytes, sha256 {first}")
    if options.twice and (second := digest(build(options.python))) != first:
        print(f"{made.name}: a second build has sha256 {second}", file=sys.stderr)
        return 1
    return 0 if check(made) else 1


if __name__ == "__main__":
    sys.exit(main())
