"""New Debian trees, and scripts that run in one: in namespaces of their own, without a network.

Nothing stays mounted: mounts belong to a namespace that ends with its script.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.package.wheelhouse import WORK

PACKAGES: Final = "python3,python3-venv,adduser,libssl3"
NAMESPACES: Final = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child")
SECONDS_MAX: Final = 300
# The loopback interface is up, and nothing else is reachable. The tree has no `ip`.
UP: Final = """
import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
    fcntl.ioctl(opened, 0x8914, struct.pack("16sh14x", b"lo", 1))
"""
VARIABLES: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
                    "DEBIAN_FRONTEND": "noninteractive"}


def blocker() -> str | None:
    """Return why no tree can be made here; None when one can."""
    if os.geteuid() != 0:
        return "it needs root, for debootstrap and chroot"
    if shutil.which("debootstrap") is None:
        return "debootstrap is not installed: apt-get install debootstrap"
    return namespace_blocker()


def namespace_blocker() -> str | None:
    """Return why no script can have namespaces of its own; None when one can."""
    done = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True, check=False)
    return f"new namespaces are refused: {done.stderr.strip()}" if done.returncode else None


def mirror() -> str:
    """Return the archive of packages that this machine uses."""
    found = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"], check=True,
                           capture_output=True, text=True).stdout.split()
    return next((each for each in found if "security" not in each), "")


def base(suite: str) -> Path:
    """Return an archive of a new tree, which is kept."""
    archive = WORK / f"{suite}.tar"
    if not archive.exists():
        tree = WORK / "base"
        shutil.rmtree(tree, ignore_errors=True)
        # It mounts /proc in the tree.
        subprocess.run(["unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, tree,
                        *([mirror()] if mirror() else [])], check=True, stdout=subprocess.DEVNULL)
        part = archive.with_suffix(".part")
        subprocess.run(["tar", "--create", "--one-file-system", "--file", part, "--directory", tree, "."], check=True)
        part.rename(archive)
        shutil.rmtree(tree)
    return archive


def new_tree(suite: str, name: str) -> Path:
    tree = WORK / name
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    subprocess.run(["tar", "--extract", "--file", base(suite), "--directory", tree], check=True)
    return tree


def run_in(tree: Path, script: str) -> str:
    """Run a shell script inside of a tree and return its output. `SystemExit` with the output when it fails."""
    (tree / "tmp" / "script").write_text(f"python3 -c '{UP}'\n{script}")
    return run_isolated(f"mount -t proc proc '{tree}/proc' && exec chroot '{tree}' sh /tmp/script")


def run_isolated(script: str) -> str:
    """Run a shell script in namespaces of its own and return its output. `SystemExit` with the output when it fails."""
    done = subprocess.run([*NAMESPACES, "sh", "-c", script], capture_output=True, text=True, check=False,
                          timeout=SECONDS_MAX, env=VARIABLES)
    if done.returncode:
        raise SystemExit(f"failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
