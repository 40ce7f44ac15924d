"""Log lines of a node in a file of their own, and the levels of its parts.

    with log_settings(config):                # from here on the lines go to the file too
        ...

The loggers decide by their levels, as clients may change them while the node runs (`LoggerLevels`). With a file,
standard error keeps its own lowest level: it is for what an operator should see at once.

Lines that wait for the disk are bounded in number; further ones are discarded, and their number is written.
"""

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kraft.config.errors import InvalidConfigError
from kraft.config.node_config import NodeConfig
from kraft.runtime.base.line_writer import LineWriter
from kraft.runtime.base.log_output import LEVELS, JsonLines, Lines, TextLines

log = logging.getLogger(__name__)

LINES_WAITING_MAX: Final = 10_000
MODE: Final = 0o640
PART_LEVELS: Final = "kraft.log.levels"
SOURCES: Final = Path(__file__).parents[3]
"""The directory of the package `kraft`."""


class LogFile(logging.Handler):
    """Handler that writes to rotating files. Any thread logs; a thread of its own writes."""

    def __init__(self, path: Path, bytes_max: int, files_max: int, lines: Lines) -> None:
        """Open the file. Raises OSError that names it."""
        super().__init__()
        self.setFormatter(lines)
        self.discarded = 0
        """Lines that were discarded since the start."""
        self._lines = lines
        self._path = path
        self._waiting: deque[bytes] = deque()
        self._unreported = 0
        self._writer = LineWriter(path, bytes_max, files_max, self, name="log", mode=MODE)
        self._writer.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line."""
        try:
            line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        except Exception:  # noqa: BLE001 - a line that cannot be formatted is reported as the library does
            self.handleError(record)
            return
        if len(self._waiting) >= LINES_WAITING_MAX:
            self.lose(1)
        else:
            self._waiting.append(line)
        self._writer.due()

    def close(self) -> None:
        """Write the queued lines, for a bounded time, and end the thread. May be called again."""
        self._writer.close()
        super().close()

    # --- `LineSource` -----------------------------------------------------------------------------------------------

    def take_lines(self, count_max: int) -> list[bytes]:
        lines = [self._waiting.popleft() for _ in range(min(len(self._waiting), count_max))]
        if lines and self._unreported:
            count, self._unreported = self._unreported, 0
            record = log.makeRecord(log.name, logging.WARNING, __file__, 0, "%d lines of the log were discarded",
                                    (count,), None)
            lines.append(self._lines.format(record).encode() + b"\n")
        return lines

    def lose(self, count: int) -> None:
        self.discarded += count
        self._unreported += count

    def report(self, error: OSError | None) -> None:
        if error is not None:
            log.error("the log file %s cannot be written, lines are discarded: %s", self._path, error)


def part_levels(config: NodeConfig) -> dict[str, int]:
    """Return the levels of `kraft.log.levels`, by part. Raises `InvalidConfigError` for other forms than `part=level`,
    for a part that does not exist and for a level that does not."""
    found = {}
    texts = config[PART_LEVELS]
    for text in texts if isinstance(texts, list) else ():
        name, separator, level = (each.strip() for each in text.partition("="))
        names = name.split(".")
        path = SOURCES.joinpath(*names)
        if not separator or level.lower() not in LEVELS:
            raise InvalidConfigError(f"{PART_LEVELS}: {text!r} is not part=level, with a level of {', '.join(LEVELS)}")
        if (names[0] != "kraft" or not all(map(str.isidentifier, names))
                or not (path.is_dir() or path.with_suffix(".py").exists())):
            raise InvalidConfigError(f"{PART_LEVELS}: {name!r} is no part of kraft, such as kraft.raft or "
                                     "kraft.runtime.net")
        found[name] = logging.getLevelNamesMapping()[level.upper()]
    return found


@contextmanager
def log_settings(config: NodeConfig) -> Iterator[None]:
    """Apply the settings `kraft.log.*` to the loggers of this process, until the end of the block. Raises
    `InvalidConfigError` for settings that cannot be used, and OSError that names a file that cannot be written."""
    root, path, levels = logging.getLogger(), config["kraft.log.file"], part_levels(config)
    before = {name: logging.getLogger(name).level for name in levels}
    root_level, others = root.level, [(each, each.level) for each in root.handlers]
    file = None
    if isinstance(path, str) and path:
        file = LogFile(Path(path), config.integer("kraft.log.file.max.bytes"), config.integer("kraft.log.files.max"),
                       JsonLines() if config["kraft.log.format"] == "json" else TextLines())
        for handler, level in others:
            handler.setLevel(max(level, root_level))
        root.addHandler(file)
        root.setLevel(logging.getLevelNamesMapping()[str(config["kraft.log.level"]).upper()])
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
        if file is not None:
            root.removeHandler(file)
            root.setLevel(root_level)
            for handler, level in others:
                handler.setLevel(level)
            file.close()
