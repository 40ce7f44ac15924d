"""`kraft security`: files that secure a cluster."""

import os
import re
import secrets
from pathlib import Path
from typing import Final

import click

from kraft.cli.command import kraft
from kraft.cli.number_types import IntRange
from kraft.cli.options import JSON, OUTPUT_DIRECTORY, print_json
from kraft.config.authorizer_settings import STANDARD_AUTHORIZER
from kraft.config.errors import InvalidConfigError
from kraft.config.sasl_settings import JAAS, MODULES

HOST_DEFAULT: Final = "localhost"
LOOPBACK: Final = ("127.0.0.1", "::1")
FOR_OWNER: Final = 0o600
DIRECTORY_FOR_OWNER: Final = 0o700
TLS_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
SASL_PORT: Final = 9094
MECHANISM: Final = "SCRAM-SHA-256"
PASSWORD_BYTES: Final = 24
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


@kraft.group("security")
def security() -> None:
    """Files that secure a cluster."""


@security.command("init")
@click.argument("directory", type=OUTPUT_DIRECTORY)
@click.option("--host", "hosts", multiple=True, metavar="HOST", default=(HOST_DEFAULT,), show_default=True,
              help="Name or address of a node, as clients connect to it; once for each node.")
@click.option("--admin", "admins", multiple=True, metavar="NAME", default=("admin",), show_default=True,
              help="Super user that gets a certificate; once for each.")
@click.option("--client", "clients", multiple=True, metavar="NAME",
              help="User without rights that gets a certificate; once for each.")
@click.option("--user", "users", multiple=True, metavar="NAME", default=("app",), show_default=True,
              help="User without rights that gets a password for SCRAM; once for each.")
@click.option("--days", type=IntRange(1, 36_500), default=825, show_default=True,
              help="Validity of the certificates.")
@JSON
def init(directory: Path, hosts: tuple[str, ...], admins: tuple[str, ...], clients: tuple[str, ...],
         users: tuple[str, ...], days: int, as_json: bool) -> None:
    """Create a certificate authority, certificates, passwords, and configurations that use them.

    DIRECTORY gets the authority's ca.pem and ca.key, and NODE.pem and NODE.properties for each host. Each admin, client
    and user gets NAME.properties (Java, and the kraft command), NAME.librdkafka, and NAME.pem or NAME.password. Nodes,
    admins and clients show certificates to each other, users log in by SCRAM over TLS. Only nodes and admins may do
    something before `kraft acls add`. Nothing is overwritten. Keep ca.key away from the nodes.

    A user exists once `kraft users add NAME --password-file DIRECTORY/NAME.password` has created it.
    """
    from kraft.tls.authority import Authority

    certified = (*admins, *clients)
    made = _file_names((*hosts, *certified, *users))
    directory.mkdir(mode=DIRECTORY_FOR_OWNER, parents=True, exist_ok=True)
    authority = Authority("kraft development CA", days)
    where = directory.absolute()
    files: dict[str, str] = {"ca.pem": authority.issued.certificate, "ca.key": authority.issued.key}
    for host in hosts:
        own = (host, *((*LOOPBACK, HOST_DEFAULT) if host == HOST_DEFAULT else ()))
        issued = authority.issue(host, tuple(dict.fromkeys(own)), days)
        files[f"{made[host]}.pem"] = issued.key + issued.certificate
        files[f"{made[host]}.properties"] = _node_properties(where, made[host], host, (*hosts, *admins))
    for client in certified:
        issued = authority.issue(client, (), days)
        files[f"{made[client]}.pem"] = issued.key + issued.certificate
        files[f"{made[client]}.properties"] = _client_properties(where, made[client], hosts)
        files[f"{made[client]}.librdkafka"] = _library_properties(where, made[client], hosts)
    for user in users:
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        files[f"{made[user]}.password"] = f"{password}\n"
        files[f"{made[user]}.properties"] = _user_properties(where, user, password, hosts)
        files[f"{made[user]}.librdkafka"] = _library_user_properties(where, user, password, hosts)
    _write(directory, files)
    if as_json:
        print_json([{"directory": str(where), "files": sorted(files)}])
        return
    click.echo(f"{where}: {', '.join(sorted(files))}")


def _file_names(names: tuple[str, ...]) -> dict[str, str]:
    """Return the files' names without their ends. Raises InvalidConfigError for names that cannot have files of their
    own."""
    for name in names:
        if not _NAME.fullmatch(name.replace(":", "")):
            raise InvalidConfigError(f"{name!r} is not a name of letters, digits, dots, dashes and underscores")
    made = {name: _file_name(name) for name in names}
    if len({*made.values(), "ca"}) < len(names) + 1:
        raise InvalidConfigError("each host, admin, client and user needs a name of its own, and none is ca")
    return made


def _file_name(name: str) -> str:
    return name.replace(":", "_")


def _write(directory: Path, files: dict[str, str]) -> None:
    """Write new files for their owner only. Nothing is written when one of them exists."""
    if existing := [name for name in files if (directory / name).exists()]:
        raise InvalidConfigError(f"{directory}: {', '.join(existing)} exists; nothing is overwritten")
    for name, text in files.items():
        descriptor = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FOR_OWNER)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)


def _stores(where: Path, name: str) -> str:
    return (f"ssl.keystore.type=PEM\nssl.keystore.location={where}/{name}.pem\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={where}/ca.pem\n")


def _node_properties(where: Path, name: str, host: str, super_users: tuple[str, ...]) -> str:
    shown = f"[{host}]" if ":" in host else host
    named = ";".join(f"User:{each}" for each in super_users)
    return (
        f"# The node {host}. Certificates: nodes, admins and clients. Passwords: users.\n"
        f"listeners=SSL://{shown}:{TLS_PORT},SASL_SSL://{shown}:{SASL_PORT},CONTROLLER://{shown}:{CONTROLLER_PORT}\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:SSL\n"
        "inter.broker.listener.name=SSL\n"
        f"{_stores(where, name)}"
        "listener.name.ssl.ssl.client.auth=required\n"
        "listener.name.controller.ssl.client.auth=required\n"
        "# The common name of a certificate is the name of the user.\n"
        "ssl.principal.mapping.rules=RULE:^CN=([^,]+)(,.*)?$/$1/,DEFAULT\n"
        f"sasl.enabled.mechanisms={MECHANISM}\n"
        "# Others may do what `kraft acls add` allows them.\n"
        f"authorizer.class.name={STANDARD_AUTHORIZER}\n"
        f"super.users={named}\n")


def _client_properties(where: Path, name: str, hosts: tuple[str, ...]) -> str:
    return f"bootstrap.servers={_servers(hosts, TLS_PORT)}\nsecurity.protocol=SSL\n{_stores(where, name)}"


def _library_properties(where: Path, name: str, hosts: tuple[str, ...]) -> str:
    return (f"bootstrap.servers={_servers(hosts, TLS_PORT)}\nsecurity.protocol=ssl\nssl.ca.location={where}/ca.pem\n"
            f"ssl.certificate.location={where}/{name}.pem\nssl.key.location={where}/{name}.pem\n")


def _user_properties(where: Path, user: str, password: str, hosts: tuple[str, ...]) -> str:
    return (f"bootstrap.servers={_servers(hosts, SASL_PORT)}\nsecurity.protocol=SASL_SSL\nsasl.mechanism={MECHANISM}\n"
            f'{JAAS}={MODULES[MECHANISM]} required username="{user}" password="{password}";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={where}/ca.pem\n")


def _library_user_properties(where: Path, user: str, password: str, hosts: tuple[str, ...]) -> str:
    return (f"bootstrap.servers={_servers(hosts, SASL_PORT)}\nsecurity.protocol=sasl_ssl\nsasl.mechanism={MECHANISM}\n"
            f"sasl.username={user}\nsasl.password={password}\nssl.ca.location={where}/ca.pem\n")


def _servers(hosts: tuple[str, ...], port: int) -> str:
    return ",".join(f"{f'[{host}]' if ':' in host else host}:{port}" for host in hosts)
