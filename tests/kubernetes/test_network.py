"""Networks of services as pods: the operator by the Helm chart, `nw network up --engine kubernetes`
and `kubectl apply`, real packets from outside of the cluster."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import unittest

import kubernetes_cluster
from kubernetes_cluster import ROOT, find_nw
from site_of_tests import FIRST, IMAGE, SECOND, SiteTest, is_ready, wait_until

sys.path[:0] = [str(ROOT / "tests/network"), str(ROOT / "tests")]
import bounds
from network import Consumer, Producer

EXAMPLE = ROOT / "examples/networks/pods.graph"
# An address of the cluster's services: no DNS runs in it.
AGENTS = "10.96.0.66"
# User of the pods' processes.
USER = 65532
# A lease holds for 15 s.
TAKEOVER_MAX_S = 60
# Seconds that pods stay on a node that the cluster holds for lost.
LOSS_S = 10

# The chain of the µNDN paper with a producer outside of the cluster.
CHAIN = """
face consumers listens tcp4://0.0.0.0:6363
face producer = tcp4://{address}:{port}
pd = packet_dispatcher
cs = content_store(mib = 16)
br = backward_router
nr = name_router
consumers -> pd.packet
pd.interest -> cs.interest
cs.miss -> br.interest -> nr.interest -> faces
cs.hit -> faces
producer -> nr.data -> br.data -> cs.data -> faces
producer -> nr.nack -> br.nack -> faces
producer -> nr.interest
pd.data -> br.data
pd.nack -> br.nack
service front {{ pd, cs }}
route / at nr.producer
scale br 1..3 target=99% low=0% hold=60s cool=60s
"""

# The same on two nodes: the name router is on another one.
TWO_HOSTS = CHAIN.replace("service front", "service front on east").replace(
    "route /",
    "host east = process address=127.0.0.1\nhost west = process address=127.0.0.1\nservice br on east {{ br }}\n"
    "service nr on west {{ nr }}\nroute /",
)


def missing():
    """Returns why networks can't run as pods here, or None."""
    command = [find_nw(), "network", "operator", "--help"]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        return (
            f"{find_nw()} was built without the operator: cargo build -p nw-cli --features "
            "kubernetes, and set NW_BIN"
        )
    return None


class Reconnecting(Consumer):
    """A consumer that connects again when its connection ends, as clients do, and repeats what is
    not answered. `lost` counts names without an answer."""

    def __init__(self, find_address, **options):
        self.find_address, self.connections = find_address, 0
        super().__init__(None, **options)

    def run(self):
        while self.waiting or not self.stopping.is_set():
            try:
                with socket.create_connection(self.find_address(), timeout=5) as stream:
                    stream.settimeout(0.02)
                    self.connections += 1
                    self.waiting = dict.fromkeys(self.waiting, time.monotonic())
                    stream.sendall(b"".join(map(self.interest, self.waiting)))
                    self.exchange(stream)
            except OSError:
                time.sleep(0.1)


class NetworkTest(SiteTest):
    """An operator in a namespace with claims, and what tests do with networks there."""

    LEVEL = "restricted"
    OPERATORS = 2

    @classmethod
    def setUpClass(cls):
        kubernetes_cluster.need(kubernetes_cluster.missing() or missing())
        super().setUpClass()
        level = f"pod-security.kubernetes.io/enforce={cls.LEVEL}"
        cls.kubectl("label", "namespace", cls.NAMESPACE, level)
        for name in ("state", "links"):
            cls.make_claim(name)

    @classmethod
    def make_claim(cls, name):
        """Makes a volume on the first node, and a claim for it."""
        folder = cls.cluster.folder / f"volume-{name}"
        folder.mkdir(exist_ok=True)
        common = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
        }
        on_first = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
        volume = f"{cls.NAMESPACE}-{name}"
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_first]}]}}
        documents = [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": volume},
                "spec": common
                | {
                    "capacity": {"storage": "1Gi"},
                    "persistentVolumeReclaimPolicy": "Retain",
                    "local": {"path": str(folder)},
                    "nodeAffinity": affinity,
                },
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": cls.NAMESPACE},
                "spec": common
                | {"volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}},
            },
        ]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        cls.kubectl("apply", "-f", "-", input=text)
        if os.environ.get("NW_KUBERNETES_NAME"):
            cls.addClassCleanup(cls.kubectl, "delete", "pv", volume, "--wait=false")

    def setUp(self):
        operator = {
            "enabled": True,
            "replicas": self.OPERATORS,
            "namespaces": [self.NAMESPACE],
            "agentsAddress": f"{AGENTS}:6366",
            "service": {"clusterIP": AGENTS},
            "persistence": {"claim": "state"},
        }
        self.install("site", {"router": {"enabled": False}, "operator": operator})
        # Of two operators one leads, and is ready.
        self.wait_ready("app.kubernetes.io/component=operator", count=self.OPERATORS, ready=1)
        self.environment = os.environ | {"KUBECONFIG": str(self.cluster.kubeconfig)}

    def up(self, file, *options, name="net"):
        """Runs `nw network up --engine kubernetes`, which returns when the network is ready."""
        self.addCleanup(self.delete_network, name)
        command = [
            *(find_nw(), "network", "up", "--engine", "kubernetes", "--detach"),
            *("--name", name, "--namespace", self.NAMESPACE, "--links-claim", "links"),
            *(*options, file),
        ]
        done = subprocess.run(
            list(map(str, command)),
            check=False,
            capture_output=True,
            text=True,
            timeout=180,
            env=self.environment,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.describe(name))
        return done.stdout

    def describe(self, name):
        """What there is to know about a network that is not as it should be."""
        status = self.network(name).get("status")
        operator = "app.kubernetes.io/component=operator"
        options = ("-n", self.NAMESPACE, "--tail=40", "--prefix")
        command = ("logs", *options, "-l", operator)
        # An operator that was started again says why in the log before.
        logs = [self.kubectl(*command, *more, check=False).stdout for more in ((), ("--previous",))]
        return "\n".join([json.dumps(status, indent=1), *logs])

    def network(self, name="net"):
        return self.cluster.get("network", name, "-n", self.NAMESPACE)

    def delete_network(self, name="net"):
        command = ("delete", "network", name, "-n", self.NAMESPACE, "--ignore-not-found")
        self.kubectl(*command, "--timeout=60s", timeout=90)

    def condition(self, kind, name="net"):
        """The status and message of a condition, once it is about the resource as it is now."""
        network = self.network(name)
        status = network.get("status", {})
        if status.get("observedGeneration") != network["metadata"]["generation"]:
            return ("Unknown", "")
        found = [c for c in status["conditions"] if c["type"] == kind]
        return (found[0]["status"], found[0]["message"]) if found else ("Unknown", "")

    def wait_converged(self, name="net"):
        try:
            wait_until(lambda: self.condition("Ready", name)[0] == "True", f"{name} is ready")
        except AssertionError as error:
            raise AssertionError(f"{error}{self.describe(name)}") from error

    def services(self, service=None):
        """The pods of a network's service that run, by name."""
        selector = "namewire.dev/network=net"
        if service:
            selector += f",namewire.dev/service={service}"
        return {pod["metadata"]["name"]: pod for pod in self.pods(selector)}

    def address(self, service):
        (pod,) = self.services(service).values()
        return pod["status"]["podIP"]

    def newest(self, service):
        """The address of the pod of a service that was made last."""
        pods = [pod for pod in self.services(service).values() if is_ready(pod)]
        pods.sort(key=lambda pod: pod["metadata"]["creationTimestamp"])
        return pods[-1]["status"]["podIP"] if pods else ""

    def node_nw(self, *arguments):
        """The command line of a program of the node, which reaches pods."""
        return self.cluster.nodes[0].enter(find_nw(), *arguments)

    def start(self, *arguments):
        process = subprocess.Popen(
            self.node_nw(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

        def end():
            process.kill()
            process.wait()
            process.stdout.close()

        self.addCleanup(end)
        return process

    def apply_network(self, **spec):
        """Makes or changes the network with `kubectl apply`, and waits until it is ready."""
        self.addCleanup(self.delete_network)
        document = {
            "apiVersion": "namewire.dev/v1alpha1",
            "kind": "Network",
            "metadata": {"name": "net"},
            "spec": {"links": {"claim": "links"}} | spec,
        }
        self.apply(document)
        self.wait_converged()

    def scale(self, count):
        command = ("scale", "network", "net", "-n", self.NAMESPACE, f"--replicas={count}")
        self.kubectl(*command)
        self.wait_converged()
        wait_until(lambda: len(self.services("br")) == count, f"{count} pods of br")
        self.assertEqual(self.network()["status"]["replicas"], count)

    def holder(self):
        """The operator that leads."""
        lease = self.cluster.get("lease", "namewire-operator", "-n", self.NAMESPACE)
        return lease["spec"]["holderIdentity"]

    def outside(self, text=CHAIN):
        """Starts a producer outside of the cluster. Returns a document with a face to it."""
        address = f"198.18.{self.cluster.index}.1"
        producer = Producer((address, 0))
        self.addCleanup(producer.close)
        return text.format(address=address, port=producer.listener.getsockname()[1])

    def consumer(self):
        consumer = Consumer((self.address("front"), 6363), window=8)
        self.addCleanup(consumer.stopping.set)
        return consumer

    def assert_nothing_left(self):
        kinds = ("pods", "secrets", "networks.namewire.dev")
        select = ("-l", "namewire.dev/network=net")
        for kind in kinds[:2]:
            items = self.cluster.get(kind, "-n", self.NAMESPACE, *select)["items"]
            self.assertEqual([item["metadata"]["name"] for item in items], [])
        items = self.cluster.get(kinds[2], "-n", self.NAMESPACE)["items"]
        self.assertEqual(items, [])
        folder = self.cluster.folder / "volume-links"
        self.assertEqual(sorted(path.name for path in folder.iterdir()), [])
        networks = self.cluster.folder / "volume-state/networks"
        self.assertEqual(sorted(path.name for path in networks.iterdir()), [])


class Networks(NetworkTest):
    NAMESPACE = "ndn-network"

    def test_network_of_pods_carries_a_first_packet_in_time_and_leaves_nothing(self):
        started = time.monotonic()
        output = self.up(EXAMPLE)
        ready = time.monotonic() - started
        self.assertRegex(output, r"3/3 instances; Converged")
        self.assertEqual({pod["spec"]["nodeName"] for pod in self.services().values()}, {"n1"})
        producers, consumers = self.address("nr"), self.address("front")
        server = self.start("ping-server", "/site", "-s", f"tcp4://{producers}:6364")
        self.assertIn("answering under", server.stdout.readline())
        command = ("ping", "/site", "-s", f"tcp4://{consumers}:6363", "--count", "1")
        done = subprocess.run(self.node_nw(*command), check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        took = time.monotonic() - started
        print(f"network of pods: ready {ready:.1f} s, first packet {took:.1f} s", flush=True)
        bounds.check(self, "kubernetes.first_packet_s", took)
        started = time.monotonic()
        self.delete_network()
        print(f"network of pods: deleted in {time.monotonic() - started:.1f} s", flush=True)
        self.assert_nothing_left()

    def test_scaling_ends_and_takeovers_are_the_managers_plan(self):
        self.apply_network(document=self.outside(), replicasOf="br", replicas=1)
        consumer = self.consumer()
        consumer.wait_answered(100)
        for count in (2, 1):
            started = time.monotonic()
            self.scale(count)
            print(f"scaled to {count} in {time.monotonic() - started:.1f} s", flush=True)
            consumer.wait_answered(100)
        counts = consumer.finish()
        print(f"consumer while the network was scaled: {counts}", flush=True)
        self.assertEqual((counts["lost"], counts["duplicates"], counts["nacks"]), (0, 0, 0))
        self.killed_service_comes_back()
        self.operator_is_replaced()
        self.delete_network()
        self.assert_nothing_left()

    def test_another_image_replaces_pods_beside_those_that_run(self):
        spec = {"document": self.outside(), "replicasOf": "br", "replicas": 2}
        self.apply_network(image=f"{IMAGE}:{FIRST}", **spec)
        before = {name: pod["metadata"]["uid"] for name, pod in self.services().items()}
        consumer = Reconnecting(lambda: (self.newest("front"), 6363), window=8)
        self.addCleanup(consumer.stopping.set)
        consumer.wait_answered(100)
        # One that no node has: the pods that run go on.
        self.kubectl(
            *("patch", "network", "net", "-n", self.NAMESPACE, "--type=merge", "-p"),
            json.dumps({"spec": {"image": "absent:1", "imagePullPolicy": "Never"}}),
        )
        wait_until(lambda: "ErrImageNeverPull" in self.condition("Degraded")[1], "a reason")
        consumer.wait_answered(100)
        started = time.monotonic()
        spec["imagePullPolicy"] = "Never"
        self.apply_network(image=f"{IMAGE}:{SECOND}", **spec)
        print(f"another image in {time.monotonic() - started:.1f} s", flush=True)
        pods = self.services()
        self.assertEqual(len(pods), len(before))
        self.assertEqual(set(before) & set(pods), set())
        for pod in pods.values():
            for container in pod["spec"]["containers"] + pod["spec"]["initContainers"]:
                self.assertEqual(container["image"], f"{IMAGE}:{SECOND}")
        consumer.wait_answered(100)
        counts = consumer.finish()
        print(f"consumer of the pods that were replaced: {counts}", flush=True)
        self.assertEqual((counts["lost"], counts["duplicates"], counts["nacks"]), (0, 0, 0))
        self.assertEqual(counts["answered"], counts["sent"])
        self.assertEqual(consumer.connections, 2)

    def killed_service_comes_back(self):
        (before,) = self.services("br")
        uid = self.services("br")[before]["metadata"]["uid"]
        (process,) = self.processes("nw service run --graph /etc/nw/service.graph --name br~1")
        started = time.monotonic()
        self.cluster.nodes[0].run("kill", "-9", str(process))

        def is_back():
            pods = self.services("br").values()
            return [pod["metadata"]["uid"] for pod in pods] not in ([], [uid])

        wait_until(is_back, "another pod of br")
        self.wait_converged()
        consumer = self.consumer()
        consumer.wait_answered(1)
        print(f"killed service to answer: {time.monotonic() - started:.1f} s", flush=True)
        consumer.finish()

    def operator_is_replaced(self):
        before = {name: pod["metadata"]["uid"] for name, pod in self.services().items()}
        consumer, leader = self.consumer(), self.holder()
        started = time.monotonic()
        command = ("delete", "pod", leader, "-n", self.NAMESPACE, "--force", "--grace-period=0")
        self.kubectl(*command)
        wait_until(lambda: self.holder() != leader, "another operator leads", TAKEOVER_MAX_S)
        print(f"another operator leads after {time.monotonic() - started:.1f} s", flush=True)
        # It reaches the pods that it has not started.
        self.scale(2)
        print(f"it has scaled after {time.monotonic() - started:.1f} s", flush=True)
        counts = consumer.finish()
        self.assertEqual((counts["lost"], counts["duplicates"], counts["nacks"]), (0, 0, 0))
        after = {name: pod["metadata"]["uid"] for name, pod in self.services().items()}
        self.assertEqual(before, {name: uid for name, uid in after.items() if name in before})


class TwoNodes(NetworkTest):
    """Links between hosts of the document, which are pods of two nodes."""

    NAMESPACE = "ndn-nodes"
    LEVEL = "privileged"
    NODES = 2
    OPERATORS = 1
    TAGS = (FIRST,)

    def test_hosts_of_the_document_are_nodes_with_links_by_tcp(self):
        # The nodes share the computer's files, so the folder is on both.
        folder = self.cluster.folder / "shared"
        folder.mkdir()
        shutil.chown(folder, USER, USER)
        spec = {"document": self.outside(TWO_HOSTS), "links": {"hostPath": str(folder)}}
        self.apply_network(**spec)
        pods = self.services().values()
        nodes = {
            pod["metadata"]["labels"]["namewire.dev/host"]: pod["spec"]["nodeName"] for pod in pods
        }
        self.assertEqual(set(nodes), {"east", "west"})
        self.assertEqual(set(nodes.values()), {"n1", "n2"})
        consumer = self.consumer()
        consumer.wait_answered(100)
        before = self.address("nr")
        node = int(nodes["west"].removeprefix("n")) - 1
        command = "nw service run --graph /etc/nw/service.graph --name nr~1"
        (process,) = self.processes(command, node)
        self.cluster.nodes[node].run("kill", "-9", str(process))
        started = time.monotonic()
        wait_until(lambda: self.newest("nr") not in ("", before), "another address of nr")
        self.wait_converged()
        consumer = self.consumer()
        consumer.wait_answered(100)
        print(f"answers by another address after {time.monotonic() - started:.1f} s", flush=True)
        consumer.finish()

    def test_node_that_ends_has_its_services_on_another_one_and_the_last_one_is_waited_for(self):
        # East is where its claim is. West has one instance, so it needs none.
        links = {"claims": {"east": "links"}}
        document = self.outside(TWO_HOSTS)
        self.apply_network(document=document, links=links, nodeLossSeconds=LOSS_S)
        if self.node_of("nr") == "n1":
            # It was scheduled before a pod of the other host was there.
            (name,) = self.services("nr")
            self.kubectl("delete", "pod", name, "-n", self.NAMESPACE, "--wait=false")
            wait_until(lambda: list(self.services("nr")) and self.node_of("nr") == "n2", "nr on n2")
            self.wait_converged()
        self.assertEqual([self.node_of(name) for name in ("front", "br", "nr")], ["n1", "n1", "n2"])
        consumer = self.consumer()
        consumer.wait_answered(100)
        before = self.uids()
        started = time.monotonic()
        self.cluster.nodes[1].end()
        # As the cluster has noted it; the operator may have told before that the pod is silent.
        self.wait_degraded("@west: the node n2 does not answer since 20")
        wait_until(lambda: self.node_of("nr") == "n1", "nr on another node")
        self.wait_converged()
        consumer = self.consumer()
        consumer.wait_answered(100)
        print(f"node ended to answers: {time.monotonic() - started:.1f} s", flush=True)
        consumer.finish()
        after = self.uids()
        self.assertEqual(
            {before[name] == uid for name, uid in after.items() if "-nr-" in name}, {False}
        )
        self.assertEqual(
            {before[name] == uid for name, uid in after.items() if "-nr-" not in name}, {True}
        )
        self.last_node_is_waited_for()

    def last_node_is_waited_for(self):
        """Only the kubelet ends: the pods that it has left behind run on.

        A cluster that has lost all of its nodes deletes their pods or leaves them, by how soon it
        notices that none is left: the condition names the node, or says that no node takes a pod.
        """
        node, before = self.cluster.nodes[0], self.uids()
        (kubelet,) = self.processes(f"kubelet --config={node.folder}")
        started = time.monotonic()
        node.run("kill", "-9", str(kubelet))
        self.wait_degraded("the node n1 does not answer", "no node takes the pod")
        print(f"last kubelet ended to condition: {time.monotonic() - started:.1f} s", flush=True)
        self.cluster.start_kubelet(node)
        started = time.monotonic()
        wait_until(lambda: self.uids().keys() == before.keys(), "all pods are there")
        self.wait_converged()
        consumer = self.consumer()
        consumer.wait_answered(100)
        print(f"kubelet back to answers: {time.monotonic() - started:.1f} s", flush=True)
        consumer.finish()
        # What was left behind has ended.
        command = "nw service run --graph /etc/nw/service.graph --name nr~1"
        wait_until(lambda: len(self.processes(command)) == 1, "one process of nr")

    def node_of(self, service):
        """The node of the only pod of a service; none while there is another number of them."""
        nodes = [pod["spec"].get("nodeName") for pod in self.services(service).values()]
        return nodes[0] if len(nodes) == 1 else None

    def uids(self):
        return {name: pod["metadata"]["uid"] for name, pod in self.services().items()}

    def wait_degraded(self, *sentences):
        """Waits until the condition has one of some sentences."""

        def is_told():
            message = self.condition("Degraded")[1]
            return any(sentence in message for sentence in sentences)

        try:
            wait_until(is_told, f"Degraded says {' or '.join(sentences)}")
        except AssertionError as error:
            raise AssertionError(f"{error}{self.describe('net')}") from error


if __name__ == "__main__":
    unittest.main()
