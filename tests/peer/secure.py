"""A node of Kafka's whose listeners demand TLS and SASL, that of its controller too."""

from pathlib import Path
from typing import Final

from tests.peer.kafka import KafkaNode
from tests.ports import free_ports

USER: Final = "alice"
PASSWORD: Final = "secret"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS: Final = {"OPEN": "PLAINTEXT", "TLS": "SSL", "LOGIN": "SASL_PLAINTEXT", "SECURE": "SASL_SSL"}
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
LOGIN: Final = "org.apache.kafka.common.security"


class SecureNode(KafkaNode):
    """One combined node. The broker has a listener of each protocol; TLS demands a certificate of the client. The
    controller's listener has SASL over TLS. Certificates are of `secure_broker.make_certificates`, for localhost."""

    def __init__(self, home: Path, certificates: Path) -> None:
        *ports, controller, self.unused_port = free_ports(len(PROTOCOLS) + 2)
        self.certificates = certificates
        self.addresses = {name: f"localhost:{port}" for name, port in zip(PROTOCOLS, ports, strict=True)}
        self.controller = f"localhost:{controller}"
        listeners = ",".join(f"{name}://{address}" for name, address in self.addresses.items())
        protocols = PROTOCOLS | {"CONTROLLER": "SASL_SSL"}
        settings = {
            "listeners": f"{listeners},CONTROLLER://{self.controller}", "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": self.controller, "inter.broker.listener.name": "OPEN",
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "ssl.keystore.type": "PEM", "ssl.keystore.location": f"{certificates}/server.pem",
            "ssl.truststore.type": "PEM", "ssl.truststore.location": f"{certificates}/ca.pem",
            "listener.name.tls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS), "sasl.mechanism.controller.protocol": "PLAIN",
            "connection.failed.authentication.delay.ms": "10", "log.dirs": f"{home}/data,{home}/other"}
        for name in ("login", "secure", "controller"):
            settings[f"listener.name.{name}.plain.sasl.jaas.config"] = (
                f'{LOGIN}.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}" '
                f'user_{USER}="{PASSWORD}";')
            for mechanism in MECHANISMS[1:]:
                settings[f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config"] = (
                    f"{LOGIN}.scram.ScramLoginModule required;")
        super().__init__(home, **settings)
        self.port = ports[0]

    def prepare(self) -> None:
        """Format the directories, with the user's SCRAM credentials."""
        self.format("--standalone", *(option for mechanism in MECHANISMS[1:] for option in (
            "--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]")), cluster_id=CLUSTER_ID)

    def client(self, listener: str, mechanism: str = "", *, protocol: str = "", password: str = PASSWORD,
               ca: str = "ca", certificate: str = "client", address: str = "") -> str:
        """Return a client's properties, as Kafka's own tools take them; by default the right ones for the listener."""
        protocol = protocol or PROTOCOLS[listener]
        lines = [f"bootstrap.servers={address or self.addresses[listener]}", f"security.protocol={protocol}"]
        if protocol.endswith("SSL"):
            lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={self.certificates}/{ca}.pem"]
        if protocol == "SSL" and certificate:
            lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={self.certificates}/{certificate}.pem"]
        if mechanism:
            module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
            login = f'{LOGIN}.{module}LoginModule required username="{USER}" password="{password}";'
            lines += [f"sasl.mechanism={mechanism}", f"sasl.jaas.config={login}"]
        return "\n".join(lines) + "\n"
