"""The manifests agree with each other and with the node's own settings."""

from pathlib import Path
from typing import Any

import yaml

from kraft.cli.server_config import server_config
from kraft.config.quorum_config import check_quorum, static_voters
from tools.tree import ROOT

FILE = ROOT / "deploy" / "kubernetes" / "kraft.yml"
DOCUMENTS: list[dict[str, Any]] = list(yaml.safe_load_all(FILE.read_text()))


def one(kind: str, name: str = "kraft") -> dict[str, Any]:
    found, = (each for each in DOCUMENTS if each["kind"] == kind and each["metadata"]["name"] == name)
    return found


SET = one("StatefulSet")["spec"]
POD = SET["template"]["spec"]
CONTAINER = POD["containers"][0]


def configuration(tmp_path: Path, ordinal: int) -> Any:
    """Return the configuration of one node, as its command makes it."""
    path = tmp_path / "server.properties"
    path.write_text(one("ConfigMap")["data"]["server.properties"])
    host = f"kraft-{ordinal}.kraft-nodes.default.svc"
    return server_config(path, None, None, [f"node.id={ordinal}", f"advertised.listeners=PLAINTEXT://{host}:9092"])


def test_every_kind_has_the_version_that_defines_it() -> None:
    assert {each["kind"]: each["apiVersion"] for each in DOCUMENTS} == {
        "ConfigMap": "v1", "Service": "v1", "PodDisruptionBudget": "policy/v1", "StatefulSet": "apps/v1"}


def test_every_node_has_a_valid_configuration(tmp_path: Path) -> None:
    for ordinal in range(SET["replicas"]):
        config = configuration(tmp_path, ordinal)
        check_quorum(config)
        assert not config.warnings
        assert [each.node_id for each in static_voters(config)] == list(range(SET["replicas"]))
        address = static_voters(config)[ordinal].address
        assert address is not None
        assert (address.host, address.port) == (f"kraft-{ordinal}.{SET['serviceName']}", 9093)
        assert config.integer("default.replication.factor") == SET["replicas"]


def test_ports_and_paths_are_those_of_the_settings(tmp_path: Path) -> None:
    config = configuration(tmp_path, 0)
    ports = {each["name"]: each["containerPort"] for each in CONTAINER["ports"]}
    metrics = int(str(config["kraft.metrics.listener"]).rpartition(":")[2])
    assert ports == {"clients": 9092, "controllers": 9093, "metrics": metrics}
    assert {each.port for each in config.listeners} == {ports["clients"], ports["controllers"]}
    assert SET["template"]["metadata"]["annotations"]["prometheus.io/port"] == str(metrics)
    nodes = one("Service", "kraft-nodes")["spec"]
    assert {each["name"]: each["port"] for each in nodes["ports"]} == ports
    assert nodes["publishNotReadyAddresses"], "a node needs the others before it is ready"
    probes = {name: CONTAINER[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/health", "livenessProbe": "/health", "readinessProbe": "/ready"}
    assert {probe["port"] for probe in probes.values()} == {"metrics"}


def test_directories_are_on_the_volume(tmp_path: Path) -> None:
    mounts = {each["name"]: each["mountPath"] for each in CONTAINER["volumeMounts"]}
    config = configuration(tmp_path, 0)
    assert all(str(each).startswith(f"{mounts['data']}/") for each in config.log_dirs)
    assert SET["volumeClaimTemplates"][0]["metadata"]["name"] == "data"
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]
    assert "/etc/kraft/server.properties" in CONTAINER["args"][0]


def test_selectors_find_the_pods() -> None:
    labels = SET["template"]["metadata"]["labels"]
    selectors = [SET["selector"]["matchLabels"], one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
                 one("Service")["spec"]["selector"], one("Service", "kraft-nodes")["spec"]["selector"]]
    assert all(selector == labels for selector in selectors)
    assert SET["serviceName"] == "kraft-nodes"


def test_only_one_node_at_a_time_may_be_missing() -> None:
    assert one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert SET["replicas"] == 3, "a majority of the voters remains"
