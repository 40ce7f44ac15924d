"""Configuration of a node from the command line: a file, its overrides, and the defaults without both."""

from collections.abc import Container, Iterable
from pathlib import Path
from typing import Final

from kraft.config.errors import InvalidConfigError
from kraft.config.node_config import EVERY_ADDRESS, NodeConfig, parse_socket
from kraft.config.properties import read_properties, with_released_names

DATA_DEFAULT: Final = Path("kraft-data")
LISTENER_DEFAULT: Final = "PLAINTEXT://127.0.0.1:9092"
CONTROLLER_LISTENER: Final = "CONTROLLER"
# The controller's own address matters only to other nodes: a single node uses any free port.
CONTROLLER_DEFAULT: Final = f"{CONTROLLER_LISTENER}://127.0.0.1:0"


def parse_assignments(texts: Iterable[str], option: str = "--set") -> dict[str, str]:
    """Parse `key=value` texts. `InvalidConfigError` for other forms names the option."""
    found = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise InvalidConfigError(f"{option}: {text!r} is not key=value")
        found[key.strip()] = value
    return found


def server_config(file: Path | None, data: Path | None, listen: str | None, assignments: Iterable[str]) -> NodeConfig:
    """Return the settings of one node. By precedence they come from the options `--data` and `--listen`, `--set`, the
    file, and the defaults: a data directory `kraft-data` and listeners on the loopback address. Raises
    `InvalidConfigError` for invalid settings.
    """
    texts = {} if file is None else read_properties(file)
    overrides = with_released_names(parse_assignments(assignments))
    if listen is not None:
        texts.pop("advertised.listeners", None)  # it names the file's listeners
    texts |= overrides
    if data is not None:
        texts.pop("log.dir", None)
        texts.pop("metadata.log.dir", None)
        texts["log.dirs"] = str(data)
    elif "log.dirs" not in texts and "log.dir" not in texts:
        texts["log.dirs"] = str(DATA_DEFAULT)
    if listen is not None:
        _listen_on(texts, *parse_socket("--listen", listen))
    elif "listeners" not in texts and "process.roles" not in texts:
        _take_controllers(texts, [LISTENER_DEFAULT], [])
    config = NodeConfig(texts)
    refuse_unknown(config, overrides)
    return config


def refuse_unknown(config: NodeConfig, overrides: Container[str]) -> None:
    """Raise `InvalidConfigError` for unknown settings of the command line. Those of a file are ignored with a warning,
    because other products' files contain such keys."""
    if wrong := [config.ignored[key] for key in config.unknown if key in overrides]:
        raise InvalidConfigError("\n".join(wrong))


def _listen_on(texts: dict[str, str], host: str, port: int) -> None:
    """Replace the file's broker listeners by one address; the controllers' own stay."""
    names = [name.strip().upper() for name in texts.get("controller.listener.names", CONTROLLER_LISTENER).split(",")]
    given = [each.strip() for each in texts.get("listeners", "").split(",") if each.strip()]
    controllers = [each for each in given if each.partition("://")[0].upper() in names]
    name = texts.get("inter.broker.listener.name", "PLAINTEXT")
    if host in EVERY_ADDRESS and "advertised.listeners" not in texts:
        raise InvalidConfigError(f"--listen: {host} is no address that a client can connect to; name one with "
                                 f"--set advertised.listeners={name}://HOST:{port or 'PORT'}")
    _take_controllers(texts, [f"{name}://{f'[{host}]' if ':' in host else host}:{port}"], controllers)


def _take_controllers(texts: dict[str, str], brokers: list[str], controllers: list[str]) -> None:
    roles = [role.strip() for role in texts.get("process.roles", "controller").split(",")]
    if "controller" not in roles:
        texts["listeners"] = ",".join(brokers)
        return
    name = texts.setdefault("controller.listener.names", CONTROLLER_LISTENER).split(",")[0].strip()
    default = CONTROLLER_DEFAULT.replace(CONTROLLER_LISTENER, name, 1)
    texts["listeners"] = ",".join([*brokers, *(controllers or [default])])
