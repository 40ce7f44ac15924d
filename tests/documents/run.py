"""Runs the code blocks of one page, in their order, as a reader would: `python -m tests.documents.run PAGE HOME`.

It runs inside a sandbox that `command` starts: new network, process and mount namespaces. So the page's addresses (such
as 127.0.0.1:9092) and directories (below /srv and /var/lib) are free, and nothing outlives the run. All shell blocks of
a page are one script, and all Python blocks one program, so that a block may use what an earlier one has left. Line
numbers in errors are those of the page.
"""

import fcntl
import os
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.documents.prepare import PREPARATIONS
from tools.documents import Block, blocks
from tools.tree import ROOT

SANDBOX: Final = ("unshare", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
HIDDEN: Final = ("/srv", "/var/lib")
"""Directories that are empty in the sandbox, and writable."""
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
BACKGROUND: Final = re.compile(r"in the background(, until (?P<host>[\d.]+):(?P<port>\d+) answers)?")
EXIT_CODE: Final = re.compile(r"ends with (?P<code>\d+)")
PYTEST_BLOCK: Final = re.compile(r"^def test_", re.MULTILINE)


def command(page: Path, home: Path) -> list[str]:
    """Return the command that runs a page in its sandbox, in the empty directory `home`."""
    return [*SANDBOX, sys.executable, "-m", __name__, str(page), str(home)]


def is_run(block: Block, language: str) -> bool:
    return block.language == language and not block.mark.startswith(("not run:", "run by "))


def script(text: str) -> str:
    """Return the shell blocks of a page as one script whose lines have the page's numbers."""
    lines = [""] * (text.count("\n") + 1)
    for block in blocks(text):
        if not is_run(block, "sh"):
            continue
        code = block.code.splitlines()
        first = block.line - 1
        lines[first:first + len(code)] = code
        before, after = first - 1, first + len(code)
        if background := BACKGROUND.fullmatch(block.mark):
            waiting = f" until (: <>/dev/tcp/{background['host']}/{background['port']}) 2>/dev/null; do :; done" \
                if background["port"] else ""
            lines[before], lines[after] = "{", "} &" + waiting
        elif ends := EXIT_CODE.fullmatch(block.mark):
            lines[before], lines[after] = "set +e; {", f"}}; code=$?; set -e; test $code = {ends['code']}"
    return "\n".join(lines)


def program(text: str) -> str:
    """Return the Python blocks of a page as one program whose lines have the page's numbers."""
    lines = [""] * (text.count("\n") + 1)
    for block in blocks(text):
        if is_run(block, "python") and not PYTEST_BLOCK.search(block.code):
            code = block.code.splitlines()
            lines[block.line - 1:block.line - 1 + len(code)] = code
    return "\n".join(lines)


def run_tests(page: Path, home: Path) -> None:
    """Run a page's tests with a pytest of their own."""
    found = [block for block in blocks(page.read_text()) if is_run(block, "python") and PYTEST_BLOCK.search(block.code)]
    for number, block in enumerate(found):
        path = home / f"test_block_{number}.py"
        path.write_text(block.code)
        (home / "pytest.ini").write_text("[pytest]\n")
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", path], cwd=home, check=True)


def main(page: Path, home: Path) -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    for directory in HIDDEN:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", directory], check=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["XDG_CONFIG_HOME"] = str(home / "config")
    os.chdir(home)
    text = page.read_text()
    if prepare := PREPARATIONS.get(os.path.relpath(page, ROOT)):
        prepare()
    if (shell := script(text)).strip():
        path = home / page.name
        path.write_text(f"""set -Eeuo pipefail; trap 'echo "line $LINENO" >&2' ERR; {shell}""")
        subprocess.run(["bash", path], check=True, stdin=subprocess.DEVNULL)
    if (code := program(text)).strip():
        exec(compile(code, str(page), "exec"), {"__name__": "__main__"})
    run_tests(page, home)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
