"""TLS of our node beside TLS of Apache Kafka 4.3.1, and beside Kafka without TLS, on this machine and in one run.

    python -m bench.macro.tls [--quick] [--only TEXT] [--directory DIR]

Both nodes have the same certificate, and the client offers both the same suites: TLS 1.3 with AES-256-GCM. The client
encrypts in threads of its own, so rates are limited by what it can decrypt on the same processors; the figure to read
is the server's processor time. Otherwise the run is like that of `bench.macro.peer`. Needs Java and Maven, and the
openssl command for the handshakes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import click

from bench.commit.quorums import cpu_seconds
from bench.macro.figures import Figure, Pair, Row, chosen, comparison
from bench.macro.options import DIRECTORY, ONLY, QUICK
from bench.macro.rows import FETCH_LARGE, PRODUCE_16_KIB, WARMUP_SECONDS, measured, own_topic, start_rows
from bench.macro.servers import KafkaServer, KraftServer, Server
from kraft.client.security import Security
from kraft.load.workload import Workload
from kraft.tls.authority import Authority
from tests.peer.kafka import missing
from tests.ports import free_ports

HOST: Final = "localhost"
CA: Final = "ca.pem"
DAYS: Final = 2
HANDSHAKE_SECONDS: Final = 3
CLIENTS: Final = 2
CONNECTIONS: Final = re.compile(r"^(\d+) connections in .* real seconds", re.MULTILINE)


class TlsKraftServer(KraftServer):
    """Our node with a plain listener and one with TLS."""

    def __init__(self, home: Path, certificates: Path) -> None:
        super().__init__(home)
        tls, controller = free_ports(2)
        self.tls_bootstrap = f"{HOST}:{tls}"
        self._config = home / "node.properties"
        self._config.write_text("\n".join([
            f"listeners=PLAINTEXT://{self.bootstrap},SSL://{self.tls_bootstrap},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names=CONTROLLER", "inter.broker.listener.name=PLAINTEXT",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            *(f"{name}={value}" for name, value in store(certificates).items())]) + "\n")

    def listening(self) -> list[str]:
        return [f"--config={self._config}"]


class TlsKafkaServer(KafkaServer):
    """Kafka with a plain listener and one with TLS."""

    def __init__(self, home: Path, certificates: Path) -> None:
        plain, tls, controller = free_ports(3)
        self.tls_bootstrap = f"{HOST}:{tls}"
        listeners = f"PLAINTEXT://127.0.0.1:{plain},SSL://{self.tls_bootstrap}"
        super().__init__(home, **store(certificates), **{
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}", "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT"})
        self.bootstrap = f"127.0.0.1:{plain}"


def issue(certificates: Path) -> None:
    """Write a certificate of both servers, with its key, and that of its authority."""
    authority = Authority("bench", DAYS)
    issued = authority.issue(HOST, (HOST,), DAYS)
    (certificates / CA).write_text(authority.issued.certificate)
    (certificates / f"{HOST}.pem").write_text(issued.key + issued.certificate)


def store(certificates: Path) -> dict[str, str]:
    """Return the settings of the certificate, the same for both."""
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates / f"{HOST}.pem")}


def tls_of(server: Server) -> str:
    """Return the address of a server's listener with TLS."""
    assert isinstance(server, TlsKraftServer | TlsKafkaServer)
    return server.tls_bootstrap


def load_rows(pair: Pair, name: str, workload: Workload, security: Security) -> list[Figure]:
    """Measure one workload on both, with TLS and without."""
    with own_topic(pair, workload) as own:
        def run(server: Server) -> tuple[float, ...]:
            secure = measured(name, server, own, pair.seconds, WARMUP_SECONDS, address=tls_of(server),
                              security=security)
            plain = measured(name, server, own, pair.seconds, WARMUP_SECONDS)
            return (secure.megabytes_per_second, secure.cpu_seconds_per_gigabyte or 0.0,
                    plain.cpu_seconds_per_gigabyte or 0.0)

        rate, secure, plain = pair.alternate(run, (
            Figure(name, "rate, TLS", "MB/s", None, "more"), Figure(name, "server CPU, TLS", "s/GB", 0.5),
            Figure(name, "server CPU, plain", "s/GB", None)))
    beside = replace(secure, name="server CPU, ours TLS, Kafka plain", aim=1.0, peers=plain.peers)
    return [rate, secure, plain, beside]


def handshake_rows(pair: Pair, ca_file: Path) -> list[Figure]:
    """Measure new connections with a full handshake each, by clients in C."""
    name = f"handshakes, {CLIENTS} clients"

    def run(server: Server) -> tuple[float, ...]:
        command = ["openssl", "s_time", "-connect", tls_of(server), "-new", "-time", str(HANDSHAKE_SECONDS), "-CAfile",
                   str(ca_file), "-verify", "1"]
        before, begin = cpu_seconds(server.pids), time.monotonic()
        clients = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                   for _ in range(CLIENTS)]
        printed = [client.communicate()[0] for client in clients]
        elapsed, used = time.monotonic() - begin, cpu_seconds(server.pids) - before
        counts = [CONNECTIONS.search(text) for text in printed]
        if not all(counts) or any(client.returncode for client in clients):
            raise RuntimeError(f"{server.name}: openssl s_time failed: {printed[0][-500:]}")
        done = sum(int(count[1]) for count in counts if count)
        return done / elapsed, used / done * 1000

    return pair.alternate(run, (Figure(name, "rate", "/s", 2.0, "more"), Figure(name, "server CPU", "ms each", 0.5)))


def rows(certificates: Path, security: Security) -> Iterator[Row]:
    """Yield the rows by name, in the order in which they are run."""
    for name, workload in (FETCH_LARGE, PRODUCE_16_KIB):
        yield name, partial(load_rows, name=name, workload=workload, security=security)
    if shutil.which("openssl") is not None:
        yield "handshakes", partial(handshake_rows, ca_file=certificates / CA)


@click.command()
@QUICK
@ONLY
@DIRECTORY
def main(quick: bool, only: tuple[str, ...], directory: Path) -> None:
    """Measure our node's TLS beside Apache Kafka's."""
    if (reason := missing()) is not None:
        raise click.ClickException(f"needs Apache Kafka as a peer: {reason}")
    with tempfile.TemporaryDirectory(prefix="kraft-tls-") as made:
        certificates = Path(made)
        issue(certificates)
        security = Security(tls=True, ca_file=str(certificates / CA))
        with comparison("tls", directory, partial(TlsKraftServer, certificates=certificates),
                        partial(TlsKafkaServer, certificates=certificates), quick=quick) as run:
            run.report.add(start_rows(
                run.pair, Figure("start", "to the first Metadata reply", "s", None),
                Figure("memory after the start", "resident", "MB", None)))
            wanted = chosen(rows(certificates, security), only)
            if not quick:
                run.warm(wanted)
            run.measure(wanted)


if __name__ == "__main__":
    main()
