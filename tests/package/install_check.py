"""Installations as on a new machine: `make install-check`.

    python -m tests.package.install_check [--suite bookworm]

1. Environment: the wheel in `dist` alone, its size and its engine; then the extra `node`, and a record through a node.
2. Tree: the same in a Debian tree without a compiler; from `pip install` to the first record consumed, at most 15 s.
3. Package: the one in `dist` in such a tree: installed, a node started, a record read, removed, purged, nothing left.
4. Image: the one in `dist`, its command run as its user in its own file system.

Nothing comes from a network, once the packages of a node are in `build/install-check`. What cannot be done here (no
root, no debootstrap, nothing in `dist`) is skipped, and the output says so.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tests.package import debian_tree, image_tree
from tests.package.wheelhouse import WORK, install, wheelhouse
from tests.ports import free_ports
from tools import image, wheel
from tools.deb import wheel_for

SECONDS_MAX: Final = 15.0
# One record through a node. The node's first line of output says that it is ready.
RECORD: Final = """
mkfifo {work}/ready
{kraft} server start {options} > {work}/ready &
node=$!
trap 'kill $node 2> /dev/null || :' EXIT
exec 3< {work}/ready
read line <&3
echo "$line"
{kraft} topics create orders
echo 'two coffees' | {kraft} produce orders
test "$({kraft} consume orders --limit 1)" = 'two coffees'
"""
ENDED: Final = """
kill $node
wait $node
"""
CLOCK: Final = 'echo "{what}: $(( ($(date +%s%N) - began) / 1000000 )) ms"\n'
ENGINE: Final = """
import kraft
with kraft.Log("log") as log:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        log.append_records([(codec.encode(), None, None, ())], codec=codec)
    print([record.value for record in log.records()])
"""
WHEEL: Final = """
set -e
test ! -e /usr/bin/cc -a ! -e /usr/bin/gcc
python3 -m venv /opt/kraft
began=$(date +%s%N)
/opt/kraft/bin/pip install --quiet --disable-pip-version-check --no-index --find-links /wheels \\
    "$(echo /wheels/kraft-*.whl)[node]"
""" + CLOCK.format(what="pip install") + \
    RECORD.format(kraft="/opt/kraft/bin/kraft", work="/tmp", options="--data /tmp/data") + \
    CLOCK.format(what="first record") + ENDED
PACKAGE: Final = """
set -e
dpkg --install /packages/*.deb
kraft --version
test "$(stat -c '%U:%G %a' /var/lib/kraft)" = 'kraft:kraft 750'
test "$(stat -c '%U:%G %a' /etc/kraft/server.properties)" = 'root:kraft 640'
kraft server check --config /etc/kraft/server.properties
""" + RECORD.format(kraft="kraft", work="/tmp", options="--data /tmp/data") + ENDED + """
dpkg --remove kraft
test ! -e /usr/bin/kraft -a ! -e /usr/lib/kraft -a -e /etc/kraft/server.properties
touch /var/lib/kraft/data
dpkg --purge kraft
test ! -e /etc/kraft -a -e /var/lib/kraft/data -a -n "$(getent passwd kraft)"
rm /var/lib/kraft/data
dpkg --install /packages/*.deb > /dev/null
dpkg --purge kraft
test ! -e /etc/kraft -a ! -e /var/lib/kraft -a ! -e /var/log/kraft -a -z "$(getent passwd kraft)"
echo 'removed; purged with data, which stayed; purged without, and nothing stayed'
"""


def sizes(environment: Path) -> dict[str, tuple[int, int]]:
    """Return the bytes of each installed package, without pip and its like: those of its files, and of its bytecode."""
    installed = next((environment / "lib").glob("python*/site-packages"))
    found = {}
    for top in installed.iterdir():
        if top.name.startswith(("pip", "setuptools", "_distutils_hack", "pkg_resources", "distutils-", "__pycache__")):
            continue
        files = [path for path in (top.rglob("*") if top.is_dir() else [top]) if path.is_file()]
        bytecode = sum(path.stat().st_size for path in files if path.suffix == ".pyc")
        found[top.name] = sum(path.stat().st_size for path in files) - bytecode, bytecode
    return found


def clean_variables(**more: str) -> dict[str, str]:
    """Return variables of a process that sees nothing of this tree."""
    return {"PATH": "/usr/bin:/bin", "HOME": str(WORK), "LC_ALL": "C.UTF-8", **more}


def output(directory: Path, *command: object) -> str:
    """Run a program elsewhere and return its output. `SystemExit` with its message when it fails."""
    done = subprocess.run([*map(str, command)], cwd=directory, capture_output=True, text=True, check=False, timeout=120,
                          env=clean_variables())
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def check_environment() -> None:
    """Install the wheel into a new environment, use its engine, add the extra `node`, and use a node."""
    directory = WORK / "environment"
    shutil.rmtree(directory, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    python, kraft = directory / "bin" / "python", directory / "bin" / "kraft"
    made = wheel_for(sys.executable)
    began = time.monotonic()
    install(python, made)
    seconds = time.monotonic() - began
    found = sizes(directory)
    files, bytecode = (sum(each[index] for each in found.values()) for index in (0, 1))
    largest = sorted(found.items(), key=lambda each: -sum(each[1]))[:6]
    print(f"engine: installed in {seconds:.1f} s: {files:,} bytes of files, {bytecode:,} of bytecode: "
          + ", ".join(f"{name} {sum(size) / 1e6:.1f} MB" for name, size in largest))
    print(output(directory, kraft, "--version"), end="")
    printed = output(directory, python, "-c", ENGINE)
    if printed != "[b'none', b'gzip', b'snappy', b'lz4', b'zstd']\n":
        raise SystemExit(f"the engine returned {printed}")
    began = time.monotonic()
    install(python, f"{made}[node]")
    print(f"node: the extra installed in {time.monotonic() - began:.1f} s")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    script = RECORD.format(kraft=kraft, work=directory, options=f"--data {directory}/data --listen {address}")
    done = subprocess.run(["sh", "-ec", script + ENDED], cwd=directory, capture_output=True, text=True, check=False,
                          timeout=120, env=clean_variables(KRAFT_BOOTSTRAP=address))
    if done.returncode:
        raise SystemExit(f"a node in the environment:\n{done.stdout}{done.stderr}")
    print(f"node: a record written and read after {time.monotonic() - began:.1f} s")


def check_tree(suite: str) -> bool:
    """Install the wheel in a tree and use it; return whether it was quick enough."""
    tree = debian_tree.new_tree(suite, "tree")
    shutil.copytree(WORK / "wheels", tree / "wheels")
    printed = debian_tree.run_in(tree, WHEEL)
    print(printed, end="")
    milliseconds = int(printed.partition("first record: ")[2].split()[0])
    print(f"tree: {milliseconds / 1000:.1f} s from pip install to the first record consumed, "
          f"at most {SECONDS_MAX:.0f} s")
    return milliseconds <= SECONDS_MAX * 1000


def check_package(suite: str, package: Path) -> None:
    """Install the package in a tree, use it, remove it, purge it."""
    tree = debian_tree.new_tree(suite, "package")
    (tree / "packages").mkdir()
    shutil.copy(package, tree / "packages")
    print(debian_tree.run_in(tree, PACKAGE), end="")
    print("package: installed, used, removed")


def check_image() -> None:
    """Run the image's command, as its user and in its file system."""
    tree = image_tree.unpacked(image.ARCHIVE)
    kraft = f"chroot --userspec={image.USER_ID}:{image.USER_ID} {tree} /usr/bin/kraft"
    work = WORK / "image-run"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    script = "set -e\n" + image_tree.MOUNTS.format(tree=tree, up=debian_tree.UP) + RECORD.format(
        kraft=kraft, work=work, options="--config /etc/kraft/server.properties") + ENDED
    print(debian_tree.run_isolated(script), end="")
    print(f"image: a node and a record as user {image.USER_ID}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Install the wheel, the package and the image as on a new machine.")
    parser.add_argument("--suite", default="bookworm", help="the Debian release of trees [default: %(default)s]")
    suite = parser.parse_args().suite
    WORK.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    wheelhouse()
    check_environment()
    is_quick = True
    if (why := debian_tree.blocker()) is not None:
        print(f"tree, package: skipped: {why}")
    else:
        is_quick = check_tree(suite)
        packages = sorted(wheel.DIST.glob("kraft_*.deb"), key=lambda path: path.stat().st_mtime)
        if packages:
            check_package(suite, packages[-1])
        else:
            print("package: skipped: dist has none: make deb")
    if not image.ARCHIVE.exists():
        print("image: skipped: dist has none: make image")
    elif os.geteuid() != 0 or (why := debian_tree.namespace_blocker()) is not None:
        print(f"image: skipped: {why or 'it needs root'}")
    else:
        check_image()
    print(f"install-check: {suite} on {platform.machine()}, {time.monotonic() - began:.0f} s in all")
    return 0 if is_quick else 1


if __name__ == "__main__":
    sys.exit(main())
