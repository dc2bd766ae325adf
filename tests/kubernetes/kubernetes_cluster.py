"""A real Kubernetes cluster on this computer: one machine for the control plane, one for each node.

    computer ── nwk8sK 198.18.K.1 ── bridge in `control` 198.18.K.2: etcd, API server, scheduler
                                       ├─ n1 198.18.K.11: containerd, kubelet, kube-proxy, pods
                                       └─ n2 198.18.K.12, pods of both below 10.244.K.0/24

Everything is below one folder; machines are namespaces (machines.py). `down` removes them, the
folder and the control groups, and nothing else of the computer was changed.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import programs
from certificates import Authority
from machines import Machine

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = {
    "etcd": "etcd-server",
    "containerd": "containerd",
    "runc": "runc",
    "ctr": "containerd",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "nsenter": "util-linux",
    "ip": "iproute2",
    "openssl": "openssl",
    "cc": "gcc",
}
CNI = pathlib.Path("/usr/lib/cni")
CTR = ("ctr", "-a", "/run/containerd.sock", "-n", "k8s.io")
PAUSE_IMAGE = "docker.io/nwtest/pause:1"
# The process of a pod that holds its network: it ends at SIGTERM and waits for orphans.
PAUSE_SOURCE = """
#include <signal.h>
#include <unistd.h>
#include <sys/wait.h>
static void end(int s) { (void)s; _exit(0); }
static void reap(int s) { (void)s; while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main(void) { signal(SIGTERM, end); signal(SIGINT, end); signal(SIGCHLD, reap);
  for (;;) pause(); }
"""
START_TIMEOUT_S = 120


def is_asked_for():
    """Whether the caller wants a cluster: then tests that can't run have failed."""
    return bool(os.environ.get("NW_KUBERNETES") or os.environ.get("NW_KUBERNETES_NAME"))


def need(reason):
    """Without a reason, nothing. With one, why a class of tests can't run: it is skipped, or fails
    if a cluster was asked for."""
    if reason and is_asked_for():
        raise AssertionError(reason)
    if reason:
        raise unittest.SkipTest(reason)


def missing():
    """Returns why no cluster can be started here, or None."""
    if not is_asked_for():
        return "a Kubernetes cluster takes two minutes: NW_KUBERNETES=run runs its tests"
    if reason := missing_on_machine():
        return reason
    if programs.kubernetes() is None:
        return (
            "Kubernetes is not built here: run tests/kubernetes/cluster build, or set "
            "NW_KUBERNETES=build"
        )
    return None


def missing_on_machine():
    """Returns what a cluster needs of the machine and does not find, or None."""
    if os.geteuid() != 0:
        return "a Kubernetes cluster needs root"
    absent = absent_packages()
    if absent:
        return f"not found: apt-get install {' '.join(absent)}"
    return None


def absent_packages():
    """The distribution's packages that are needed and absent."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    absent = {package for name, package in PACKAGES.items() if not shutil.which(name, path=path)}
    if not (CNI / "bridge").exists():
        absent.add("containernetworking-plugins")
    return sorted(absent)


def find_nw():
    """The program under test: NW_BIN, or the release or debug build of this tree."""
    found = [
        os.environ.get("NW_BIN"),
        *(ROOT / f"target/{kind}/nw" for kind in ("release", "debug")),
    ]
    for path in found:
        if path and pathlib.Path(path).exists():
            return str(path)
    sys.exit("no nw found: cargo build --release -p nw-cli, or set NW_BIN")


class Cluster:
    """A cluster by name. Its folder says all about it, so that any process can end it."""

    def __init__(self, name="nw"):
        self.name = name
        self.folder = pathlib.Path(tempfile.gettempdir()) / f"nw-kubernetes-{name}"
        self.kubeconfig = self.folder / "kubeconfig"
        self.control = Machine("control", self.folder / "control")

    @property
    def nodes(self):
        return [Machine(path.name, path) for path in sorted(self.folder.glob("n[0-9]"))]

    @property
    def machines(self):
        return [self.control, *self.nodes]

    @property
    def index(self):
        return int((self.folder / "index").read_text())

    @property
    def server(self):
        return f"https://198.18.{self.index}.2:6443"

    def cgroup(self, node):
        return f"nwk8s-{self.name}-{node}"

    def up(self, nodes=1, say=lambda line: None):
        """Starts the cluster and returns when every node is ready."""
        if self.folder.exists():
            raise RuntimeError(
                f"the cluster {self.name} exists: end it with tests/kubernetes/cluster down "
                f"--name {self.name}"
            )
        self.folder.mkdir(mode=0o700)
        (self.folder / "index").write_text(str(_free_index()))
        try:
            started = time.monotonic()
            self._start_control()
            say(f"API server ready after {time.monotonic() - started:.1f} s")
            pause = self._build_pause()
            for number in range(1, nodes + 1):
                self.add_node(number)
                self.load(pause, nodes=[f"n{number}"])
            self._wait(self._are_nodes_ready, "nodes ready", ("n1", "kubelet"))
            self._wait(
                lambda: self.kubectl("get", "serviceaccount/default", check=False).returncode == 0,
                "service account `default`",
                ("control", "controller-manager"),
            )
            say(f"{nodes} nodes ready after {time.monotonic() - started:.1f} s")
        except BaseException:
            if not os.environ.get("NW_KUBERNETES_KEEP"):
                self.down()
            raise

    def down(self):
        """Ends the cluster's processes and removes all that it made."""
        for machine in reversed(self.machines):
            machine.end()
        for machine in self.machines:
            _remove_cgroups(self.cgroup(machine.name))
        made = self.folder / "made"
        if made.exists():
            for path in dict.fromkeys(made.read_text().split()):
                try:
                    pathlib.Path(path).rmdir()
                except OSError:
                    # Something else has used the folder since.
                    pass
        # The kernel removes the interface with the namespace of its other end, a little later.
        if (self.folder / "index").exists():
            interface = f"nwk8s{self.index}"
            subprocess.run(["ip", "link", "delete", interface], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def kubectl(self, *arguments, check=True, **more):
        """Runs kubectl as administrator of the cluster."""
        done = subprocess.run(
            [str(programs.kubernetes() / "kubectl"), *map(str, arguments)],
            check=False,
            capture_output=True,
            text=True,
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig)},
            timeout=more.pop("timeout", 180),
            **more,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(map(str, arguments))}: {done.stderr}")
        return done

    def get(self, *arguments):
        """The objects that `kubectl get` finds, as a dictionary."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json").stdout)

    def load(self, archive, nodes=None):
        """Loads an image archive into the nodes, without a registry."""
        for node in self.nodes:
            if nodes is not None and node.name not in nodes:
                continue
            self._wait_for_containerd(node)
            # A pipe, because the folder of the archive may not exist inside the node.
            with open(archive, "rb") as file:
                command = node.enter(*CTR, "images", "import", "-")
                done = subprocess.run(
                    command, check=False, stdin=file, capture_output=True, text=True
                )
            if done.returncode != 0:
                raise RuntimeError(f"{node.name}: ctr images import: {done.stderr}")

    def _wait_for_containerd(self, node):
        self._wait(
            lambda: node.run(*CTR, "version", check=False).returncode == 0,
            "containerd",
            (node.name, "containerd"),
        )

    def _start_control(self):
        control, index = self.control, self.index
        control.start()
        keys = self.folder / "keys"
        authority = Authority(keys)
        names = f"DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1,IP:198.18.{index}.2"
        authority.sign("api-server", "kube-apiserver", addresses=names.split(","))
        authority.sign("admin", "admin", "system:masters")
        authority.sign("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
        authority.write_kubeconfig(self.kubeconfig, self.server, "admin")
        for name in ("kube-controller-manager", "kube-scheduler", "kube-proxy"):
            authority.sign(name, f"system:{name}")
            path = self.folder / f"{name}.kubeconfig"
            authority.write_kubeconfig(path, self.server, name)
        self._connect_control()
        self._start_etcd_and_api(keys)
        server = self.folder / "kube-controller-manager.kubeconfig"
        control.spawn(
            "controller-manager",
            programs.kubernetes() / "kube-controller-manager",
            f"--kubeconfig={server}",
            f"--service-account-private-key-file={keys}/service-account.key",
            f"--root-ca-file={keys}/ca.crt",
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--secure-port=0",
            # So that the loss of a node is seen within a test.
            "--node-monitor-grace-period=12s",
            "--node-monitor-period=1s",
        )
        control.spawn(
            "scheduler",
            programs.kubernetes() / "kube-scheduler",
            f"--kubeconfig={self.folder}/kube-scheduler.kubeconfig",
            "--leader-elect=false",
            "--secure-port=0",
        )

    def _start_etcd_and_api(self, keys):
        control, index = self.control, self.index
        control.spawn(
            "etcd",
            "etcd",
            f"--data-dir={control.folder}/etcd",
            "--listen-client-urls=http://127.0.0.1:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--unsafe-no-fsync",
        )
        control.spawn(
            "api-server",
            programs.kubernetes() / "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address=198.18.{index}.2",
            "--secure-port=6443",
            f"--tls-cert-file={keys}/api-server.crt",
            f"--tls-private-key-file={keys}/api-server.key",
            f"--client-ca-file={keys}/ca.crt",
            f"--service-account-key-file={keys}/service-account.pub",
            f"--service-account-signing-key-file={keys}/service-account.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged",
            "--endpoint-reconciler-type=lease",
            # etcd 3.4 of the distribution lacks what the list by watch needs.
            "--feature-gates=WatchList=false",
            f"--kubelet-certificate-authority={keys}/ca.crt",
            f"--kubelet-client-certificate={keys}/kubelet-client.crt",
            f"--kubelet-client-key={keys}/kubelet-client.key",
            "--kubelet-preferred-address-types=InternalIP",
        )
        self._wait(
            lambda: self.kubectl("get", "--raw=/readyz", check=False).returncode == 0,
            "API server ready",
            ("control", "api-server"),
        )

    def _connect_control(self):
        """Makes the bridge of the cluster, and the computer's interface to it."""
        control, index = self.control, self.index
        outer = f"nwk8s{index}"
        # With an address of its own: a bridge has the lowest one of its ports otherwise, and all
        # others lose the API server for half a minute when that port's machine ends.
        hardware = f"02:00:c6:12:{index:02x}:02"
        control.run("ip", "link", "add", "hub", "address", hardware, "type", "bridge")
        control.run("ip", "address", "add", f"198.18.{index}.2/24", "dev", "hub")
        control.run("ip", "link", "set", "hub", "up")
        control.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        peer = ("type", "veth", "peer", "name", "computer", "netns", str(control.pid))
        _ip("link", "add", outer, *peer)
        _ip("address", "add", f"198.18.{index}.1/24", "dev", outer)
        _ip("link", "set", outer, "up")
        _ip("route", "add", f"10.244.{index}.0/24", "via", f"198.18.{index}.2")
        control.run("ip", "link", "set", "computer", "master", "hub", "up")

    def add_node(self, number):
        """Starts a node; it registers itself with the API server."""
        index, name = self.index, f"n{number}"
        node = Machine(name, self.folder / name)
        node.start()
        address = f"198.18.{index}.{10 + number}"
        peer = ("type", "veth", "peer", "name", "eth0", "netns")
        # Made from the node's side: its process id as the computer counts is not known inside.
        _ip("link", "add", f"nwk8s{index}n{number}", *peer, str(node.pid))
        _ip("link", "set", f"nwk8s{index}n{number}", "netns", str(self.control.pid))
        self.control.run("ip", "link", "set", f"nwk8s{index}n{number}", "master", "hub", "up")
        node.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
        node.run("ip", "link", "set", "eth0", "up")
        node.run("ip", "route", "add", "default", "via", f"198.18.{index}.2")
        node.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        # As systemd does; `nw balancer` keeps its programs there.
        node.run("mount", "-t", "bpf", "bpf", "/sys/fs/bpf", check=False)
        node.run("sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1", check=False)
        self.control.run("ip", "route", "add", _pod_network(index, number), "via", address)
        for group in _cgroup_roots():
            _make_cgroup(group / self.cgroup(name))
        self._configure_node(node, number, address)
        node.spawn("containerd", "containerd", "--config", node.folder / "containerd.toml")
        # The kubelet ends if it finds no containerd.
        self._wait_for_containerd(node)
        self.start_kubelet(node)
        node.spawn(
            "kube-proxy",
            programs.kubernetes() / "kube-proxy",
            f"--kubeconfig={self.folder}/kube-proxy.kubeconfig",
            f"--hostname-override={name}",
            "--proxy-mode=iptables",
            f"--cluster-cidr=10.244.{index}.0/24",
            *("--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0"),
            "--conntrack-tcp-timeout-close-wait=0",
        )

    def start_kubelet(self, node):
        """Starts the kubelet of a node, also after its end: pods go on without it."""
        number = int(node.name.removeprefix("n"))
        node.spawn(
            "kubelet",
            programs.kubernetes() / "kubelet",
            f"--config={node.folder}/kubelet.json",
            f"--kubeconfig={node.folder}/kubeconfig",
            f"--hostname-override={node.name}",
            f"--node-ip=198.18.{self.index}.{10 + number}",
        )

    def _configure_node(self, node, number, address):
        folder, keys = node.folder, self.folder / "keys"
        authority = Authority.__new__(Authority)
        authority.folder = keys
        names = (f"DNS:{node.name}", f"IP:{address}")
        authority.sign(node.name, f"system:node:{node.name}", "system:nodes", names)
        authority.write_kubeconfig(folder / "kubeconfig", self.server, node.name)
        (folder / "containerd.toml").write_text(_containerd_configuration(folder))
        (folder / "cni").mkdir()
        network = _pod_network(self.index, number)
        (folder / "cni/10-nw.conflist").write_text(json.dumps(_network(network)))
        kubelet = _kubelet_configuration(keys, node.name, address, self.cgroup(node.name))
        (folder / "kubelet.json").write_text(json.dumps(kubelet))

    def _build_pause(self):
        source, binary = self.folder / "pause.c", self.folder / "pause"
        source.write_text(PAUSE_SOURCE)
        subprocess.run(["cc", "-static", "-O1", "-s", "-o", binary, source], check=True)
        archive = self.folder / "pause.tar"
        build_image(archive, PAUSE_IMAGE, "--binary", binary)
        return archive

    def _are_nodes_ready(self):
        done = self.kubectl("get", "nodes", "-o", "json", check=False)
        if done.returncode != 0:
            return False
        ready = [
            condition["status"] == "True"
            for node in json.loads(done.stdout)["items"]
            for condition in node["status"].get("conditions", [])
            if condition["type"] == "Ready"
        ]
        return len(ready) == len(self.nodes) and all(ready)

    def _wait(self, condition, what, log):
        deadline = time.monotonic() + START_TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                end = Machine(log[0], self.folder / log[0]).log_end(log[1])
                raise RuntimeError(f"not within {START_TIMEOUT_S} s: {what}. {log[1]}:\n{end}")
            time.sleep(0.2)


def build_image(archive, tag, *arguments):
    """Builds an image with `nw image build`."""
    command = [find_nw(), "image", "build", "--tag", tag, "--output", str(archive), *arguments]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)


def _ip(*arguments):
    subprocess.run(("ip", *arguments), check=True, capture_output=True)


def _free_index():
    """A number whose interface and addresses are free on this computer."""
    addresses = subprocess.run(
        ["ip", "-o", "address"], check=True, capture_output=True, text=True
    ).stdout
    for index in range(1, 250):
        if f"198.18.{index}." not in addresses and f"nwk8s{index} " not in addresses:
            return index
    raise RuntimeError("249 test clusters run on this computer: end some of them")


def _pod_network(index, number):
    return f"10.244.{index}.{64 * (number - 1)}/26"


def _network(subnet):
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": subnet}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "nw", "plugins": [bridge, ports]}


def _containerd_configuration(folder):
    # Without the right to lower the out-of-memory score, runc can't start a pod unless told so.
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  enable_selinux = false
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI}"
    conf_dir = "{folder}/cni"
"""


def _kubelet_configuration(keys, name, address, cgroup):
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": "unix:///run/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failSwapOn": False,
        "address": address,
        "tlsCertFile": f"{keys}/{name}.crt",
        "tlsPrivateKeyFile": f"{keys}/{name}.key",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{keys}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "evictionHard": {"nodefs.available": "1%", "memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 99,
        "localStorageCapacityIsolation": False,
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 8,
    }


def _cgroup_roots():
    """The root of each hierarchy of control groups: several with version 1, one with version 2."""
    base = pathlib.Path("/sys/fs/cgroup")
    if (base / "cgroup.controllers").exists():
        return [base]
    lines = pathlib.Path("/proc/self/mounts").read_text().splitlines()
    mounts = [line.split()[1:3] for line in lines]
    return [pathlib.Path(path) for path, kind in mounts if kind == "cgroup"]


def _make_cgroup(path):
    path.mkdir(exist_ok=True)
    # Processors and memory of a group of version 1 are empty until they are set.
    for name in ("cpuset.cpus", "cpuset.mems"):
        file, parent = path / name, path.parent / name
        if file.exists() and parent.exists() and not file.read_text().strip():
            file.write_text(parent.read_text())


def _remove_cgroups(name):
    for root in {*_cgroup_roots(), pathlib.Path("/sys/fs/cgroup/unified")}:
        group = root / name
        if not group.is_dir():
            continue
        for path in [*sorted((p for p in group.glob("**/") if p.is_dir()), reverse=True), group]:
            for _ in range(50):
                try:
                    path.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    # The last process of a group leaves it a little after its end.
                    time.sleep(0.02)
