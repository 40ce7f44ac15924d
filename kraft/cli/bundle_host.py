"""Facts of this machine that explain a node: kernel, memory, processors, disks and limits."""

import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from kraft.cli.command import version_text

FILES: Final = (
    "/proc/loadavg", "/proc/meminfo", "/proc/mounts", "/proc/diskstats", "/proc/pressure/cpu", "/proc/pressure/io",
    "/proc/pressure/memory", "/proc/self/limits", "/proc/self/cgroup", "/proc/sys/fs/file-max", "/proc/sys/fs/file-nr",
    "/proc/sys/kernel/random/boot_id", "/proc/sys/net/core/somaxconn", "/proc/sys/net/core/rmem_max",
    "/proc/sys/net/core/wmem_max", "/proc/sys/net/ipv4/tcp_max_syn_backlog", "/proc/sys/vm/dirty_background_ratio",
    "/proc/sys/vm/dirty_expire_centisecs", "/proc/sys/vm/dirty_ratio", "/proc/sys/vm/max_map_count",
    "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/swappiness", "/proc/uptime", "/proc/vmstat", "/etc/os-release",
    "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/cpu.max",
)
BLOCK: Final = Path("/sys/block")
QUEUE: Final = ("scheduler", "rotational", "write_cache", "nr_requests", "read_ahead_kb")


def versions() -> str:
    """Return the versions of this package, of Python and of every installed package."""
    packages = sorted({f"{each.metadata['Name']} {each.version}" for each in metadata.distributions()
                       if each.metadata["Name"]}, key=str.lower)
    return "\n".join((version_text(), f"python: {sys.version}", f"system: {platform.platform()}", "", *packages)) + "\n"


def host() -> dict[str, Any]:
    """Return the kernel's own files about the machine, and the settings of its disks; None for missing ones."""
    return {
        "uname": list(os.uname()), "processors": os.cpu_count(), "usable_processors": len(os.sched_getaffinity(0)),
        "files": {name: _read(Path(name)) for name in FILES},
        "disks": {path.name: {name: _read(path / "queue" / name) for name in QUEUE}
                  for path in sorted(BLOCK.iterdir() if BLOCK.is_dir() else ())
                  if not path.name.startswith(("loop", "ram"))},
    }


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return None
