"""A container image without a daemon or a base image: `make image` writes `dist/kraft-image.tar`, an OCI archive.

Its tree has the files of Debian's packages that a node needs (the C library, OpenSSL, Python's standard library) and
those of the project's own package in `dist`. Nothing else is in it: no shell, no package manager. buildah, from Debian,
makes the archive. Without buildah, or without root, the tool says so and ends with 0.

The same packages make the same tree; times are that of the last commit.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.tree import ROOT
from tools.wheel import DIST, digest, release_time

WORK: Final = ROOT / "build" / "image"
ARCHIVE: Final = DIST / "kraft-image.tar"
BYTES_MAX: Final = 150_000_000
USER_ID: Final = 10_001
PACKAGES: Final = (
    "base-files", "libbz2-1.0", "libc6", "libexpat1", "libffi8", "libgcc-s1", "liblzma5", "libssl3", "libstdc++6",
    "libuuid1", "media-types", "netbase", "zlib1g", "python3-minimal", "{python}-minimal", "lib{python}-minimal",
    "lib{python}-stdlib",
)
# Of no use without a shell, a desktop, a manual or a compiler.
OMITTED: Final = (
    "etc/kraft/server.properties", "lib/systemd", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d", "usr/share/bug",
    "usr/share/lintian", "usr/share/locale", "usr/share/man", "usr/share/python3", "usr/share/doc/kraft/docs",
    "usr/share/pixmaps", "usr/share/applications", "usr/share/binfmts", "usr/lib/{python}/idlelib",
    "usr/lib/{python}/lib2to3", "usr/lib/{python}/pydoc_data", "usr/lib/{python}/tkinter", "usr/lib/{python}/turtle.py",
    "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/x86_64-linux-gnu/audit",
)
FILES: Final = {
    "etc/passwd": ("root:x:0:0:root:/root:/nonexistent\n"
                   f"kraft:x:{USER_ID}:{USER_ID}:kraft:/var/lib/kraft:/nonexistent\n"),
    "etc/group": f"root:x:0:\nkraft:x:{USER_ID}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def blocker() -> str | None:
    """Return why no image can be made here; None when one can."""
    if os.geteuid() != 0:
        return "it needs root, for the owners of files"
    if shutil.which("buildah") is None:
        return "buildah is not installed: apt-get install buildah"
    return None if list(DIST.glob("kraft_*.deb")) else "dist has no Debian package: make deb"


def python_name() -> str:
    """Return the name of the system's Python, such as python3.11."""
    return Path(os.path.realpath("/usr/bin/python3")).name


def filled(names: tuple[str, ...]) -> Iterator[str]:
    return (name.format(python=python_name()) for name in names)


def unpack(tree: Path) -> None:
    """Fill a tree with the files of the packages, without their scripts."""
    downloads = WORK / "packages"
    downloads.mkdir(parents=True, exist_ok=True)
    wanted = list(filled(PACKAGES))
    missing = [name for name in wanted if not list(downloads.glob(f"{name}_*.deb"))]
    if missing:
        subprocess.run(["apt-get", "--quiet", "--quiet", "download", *missing], cwd=downloads, check=True)
    found = [next(iter(downloads.glob(f"{name}_*.deb"))) for name in wanted]
    for package in (*found, max(DIST.glob("kraft_*.deb"), key=lambda path: path.stat().st_mtime)):
        subprocess.run(["dpkg-deb", "--extract", package, tree], check=True)
    for name in filled(OMITTED):
        path = tree / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def finish(tree: Path) -> None:
    """Add the account, the settings and the directories; compile the Python code, which a container cannot keep."""
    for name, text in FILES.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    (tree / "etc" / "kraft").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / "deploy" / "container.properties", tree / "etc" / "kraft" / "server.properties")
    (tree / "tmp").mkdir(exist_ok=True)
    (tree / "tmp").chmod(0o1777)
    data = tree / "var" / "lib" / "kraft"
    data.mkdir(parents=True)
    os.chown(data, USER_ID, USER_ID)
    data.chmod(0o750)
    for name in (f"usr/lib/{python_name()}", "usr/lib/kraft/lib"):
        subprocess.run(["/usr/bin/python3", "-m", "compileall", "-q", "-j", "0", "--invalidation-mode",
                        "unchecked-hash", "-s", str(tree), "-p", "/", tree / name], check=False,
                       stdout=subprocess.DEVNULL)


def tree_bytes(tree: Path) -> int:
    """Return the size of all files, as a runtime unpacks them."""
    return sum(path.lstat().st_size for path in tree.rglob("*") if path.is_file() and not path.is_symlink())


def archive(tree: Path) -> None:
    """Write the image with buildah, whose storage lies in the build directory."""
    buildah = ("buildah", "--root", WORK / "storage", "--runroot", WORK / "run", "--storage-driver", "vfs")

    def run(*arguments: object) -> str:
        return subprocess.run([*map(str, (*buildah, *arguments))], check=True, capture_output=True,
                              text=True).stdout.strip()

    container = run("from", "scratch")
    try:
        # `buildah copy` would give every file to root.
        subprocess.run(["cp", "--archive", f"{tree}/.", run("mount", container)], check=True)
        run("umount", container)
        run("config", "--user", f"{USER_ID}:{USER_ID}", "--workingdir", "/var/lib/kraft", "--volume", "/var/lib/kraft",
            "--port", "9092", "--port", "9093", "--port", "9404", "--stop-signal", "SIGTERM", "--entrypoint",
            '["/usr/bin/kraft"]', "--cmd", "server start --config /etc/kraft/server.properties",
            "--env", "PATH=/usr/bin", "--env", "LC_ALL=C.UTF-8", "--env", "PYTHONDONTWRITEBYTECODE=1",
            "--label", "org.opencontainers.image.licenses=Apache-2.0", container)
        ARCHIVE.unlink(missing_ok=True)
        run("commit", "--quiet", "--timestamp", release_time(), container, f"oci-archive:{ARCHIVE}:kraft")
    finally:
        run("rm", container)


def check(tree: Path) -> None:
    """Run the image's command as its user, in its tree. `SystemExit` when it does not work."""
    done = subprocess.run(["chroot", f"--userspec={USER_ID}:{USER_ID}", tree, "/usr/bin/kraft", "--version"],
                          check=False, capture_output=True, text=True,
                          env={"PATH": "/usr/sbin:/usr/bin", "LC_ALL": "C.UTF-8"})
    if done.returncode:
        raise SystemExit(f"the image's command fails: {done.stderr}")
    print(done.stdout.splitlines()[0], "in the image's tree;", done.stdout.splitlines()[-1])


def main() -> int:
    argparse.ArgumentParser(description="Make a container image of the Debian package in dist.").parse_args()
    if (why := blocker()) is not None:
        print(f"image: skipped: {why}")
        return 0
    tree = WORK / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    unpack(tree)
    finish(tree)
    check(tree)
    archive(tree)
    size = tree_bytes(tree)
    with tarfile.open(ARCHIVE) as layers:
        count = sum(member.isfile() for member in layers)
    print(f"dist/{ARCHIVE.name}: {ARCHIVE.stat().st_size:,} bytes in {count} files, {size:,} bytes unpacked, "
          f"sha256 {digest(ARCHIVE)}")
    return 0 if size <= BYTES_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
