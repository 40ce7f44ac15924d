"""Named clusters in the user's directory of settings: `kraft context` edits them, commands that connect use them.

    $XDG_CONFIG_HOME/kraft/contexts/NAME.properties     properties of a Kafka client, as for `--client-config`
    $XDG_CONFIG_HOME/kraft/context                      the name of the current one; missing when there is none

Without the variable the directory is `~/.config`. Files are readable by their owner only: they may hold passwords.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kraft.config.errors import InvalidConfigError
from kraft_native.base.errors import InvalidArgumentError

VARIABLE: Final = "KRAFT_CONTEXT"
SERVERS: Final = "bootstrap.servers"
SUFFIX: Final = ".properties"
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
# Values that name files. They are kept as absolute paths, because a command may run in any directory.
PATHS: Final = (".location", ".file")


class Contexts:
    """The named clusters of one user."""

    def __init__(self, directory: Path | None = None) -> None:
        """`directory`: that of the command's settings; None: the user's."""
        if directory is None:
            home = os.environ.get("XDG_CONFIG_HOME")
            directory = (Path(home) if home else Path.home() / ".config") / "kraft"
        self._files = directory / "contexts"
        self._current = directory / "context"

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(path.name.removesuffix(SUFFIX) for path in self._files.glob(f"*{SUFFIX}"))

    def current(self) -> str | None:
        """Return the name that `use` has chosen."""
        try:
            return self._current.read_text("utf-8").strip() or None
        except OSError:
            return None

    def read(self, name: str) -> dict[str, str]:
        """Return the properties of a cluster. Raises `InvalidConfigError` for an unknown name or an unreadable file."""
        import javaproperties

        path = self._path(name)
        try:
            return dict(javaproperties.loads(path.read_text("utf-8")))
        except FileNotFoundError:
            known = ", ".join(self.names())
            raise InvalidConfigError(f"context {name!r}: unknown; {f'known: {known}' if known else 'none is set'} "
                                     "(kraft context set)") from None
        except (OSError, UnicodeDecodeError, javaproperties.InvalidUEscapeError) as error:
            raise InvalidConfigError(f"context {name!r}: {path}: {error}") from error

    def write(self, name: str, properties: Mapping[str, str]) -> None:
        """Create or replace a cluster. Raises `InvalidArgumentError` for a name that is not one."""
        import javaproperties

        kept = {key: os.path.abspath(value) if key.endswith(PATHS) and value else value
                for key, value in properties.items()}
        _replace(self._path(name), javaproperties.dumps(kept, timestamp=False))

    def use(self, name: str | None) -> None:
        """Make a cluster the current one; None: no cluster is. Raises `InvalidConfigError` for an unknown name."""
        if name is None:
            self._current.unlink(missing_ok=True)
            return
        self.read(name)
        _replace(self._current, f"{name}\n")

    def delete(self, name: str) -> None:
        """Remove a cluster. Raises `InvalidConfigError` for an unknown name."""
        self.read(name)
        if self.current() == name:
            self.use(None)
        self._path(name).unlink()

    def _path(self, name: str) -> Path:
        if NAME.fullmatch(name) is None:
            raise InvalidArgumentError(f"context {name!r}: a name has 1 to 100 letters, digits, '.', '_' and '-', and "
                                       "begins with a letter, a digit or '_'")
        return self._files / f"{name}{SUFFIX}"


def _replace(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    import tempfile  # no command but those of contexts writes one
    number, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with open(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
