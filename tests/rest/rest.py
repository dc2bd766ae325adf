"""Validates each server's OpenAPI document (openapi-spec-validator), and checks that the server
follows it (schemathesis).

Servers run in network namespaces of their own: faces that schemathesis invents have no peer. They
listen on unix sockets; a bridge in this process forwards TCP to them, the only transport of
schemathesis.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from openapi_spec_validator import validate

NW = os.path.abspath(os.environ["NW_BIN"])
HERE = Path(__file__).resolve().parent
TIMEOUT_S = 20
# Operations that end the server or stream until the reader closes: tests/cli covers them.
ENDS_OR_STREAMS = {
    "stop",
    "drain",
    "stop_balancer",
    "stop_network",
    "tap",
    "tap_instance",
    "trace",
    "events",
    "stream_events",
}
# A new user namespace allows to create a network namespace; the balancer needs real root.
NAMESPACE = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]

NETWORK = """
face near listens unix://{folder}/near.sock
face far = unix://{folder}/none.sock
br = backward_router
nr = name_router(commands = ["localhost"])
near -> br.interest -> nr.interest -> faces
near -> br.data
near -> br.nack
far -> nr.interest
far -> nr.data -> br.data -> faces
far -> nr.nack -> br.nack -> faces
route / at nr.far
"""
BALANCER = """
[cluster]
addresses = ["192.0.2.1"]
interfaces = ["out", "in1"]
attach = "generic"
control_member = "m1"
state_dir = "{folder}/state"
bpffs_dir = "{folder}/bpf"
secret = "a secret of this test alone"
[control]
path = "{folder}/balancer.sock"
[[member]]
name = "m1"
addresses = ["10.1.1.2"]
port = 6401
control = "{folder}/m1.sock"
"""


def pipe(source, sink):
    try:
        while part := source.recv(65536):
            sink.sendall(part)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def bridge(path):
    """Forwards TCP connections to a unix socket. Returns the port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    def serve():
        while True:
            client, _ = listener.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(path))
            for ends in ((client, server), (server, client)):
                threading.Thread(target=pipe, args=ends, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


class Server:
    def __init__(self, folder, name, script, path):
        self.name, self.log = name, open(folder / f"{name}.log", "w+")
        args = [*NAMESPACE, "--mount", "sh", "-ec", f"ip link set lo up\n{script}"]
        self.process = subprocess.Popen(
            args, stdin=subprocess.DEVNULL, stderr=self.log, stdout=self.log, cwd=folder
        )
        self.path = folder / path
        deadline = time.monotonic() + TIMEOUT_S
        while not self.is_listening():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.end()
                raise SystemExit(f"{name} does not run:\n{self.log_text()}")
            time.sleep(0.05)

    def is_listening(self):
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(str(self.path)) == 0

    def log_text(self):
        self.log.seek(0)
        return self.log.read()

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()


def start(folder):
    (folder / "router.toml").write_text(
        f'[faces.unix]\npath = "{folder}/nfd.sock"\n[faces.udp]\nlisten = ["127.0.0.1:6363"]\n[faces.tcp]\nlisten = []\n'
        f'[control]\npath = "{folder}/router.sock"\n'
    )
    yield "router", "openapi", f"exec {NW} run -c router.toml", "router.sock"
    # The consumers' address and the Interests' destination, which is unreachable.
    ends = f"--listen unix://{folder}/cs.sock --to next=unix://{folder}/none.sock --control {folder}/service.sock"
    yield (
        "service",
        "service openapi",
        f"exec {NW} service run content_store mib=1 {ends}",
        "service.sock",
    )
    # A producer that does not exist: the network runs, and no answer comes.
    (folder / "n.graph").write_text(NETWORK.format(folder=folder))
    yield (
        "network",
        "network openapi",
        f"exec {NW} network up n.graph --directory {folder}/networks",
        "networks/n/manager.sock",
    )
    if os.geteuid() != 0:
        print(
            "skipped: requests to the balancer, whose kernel programs need root",
            flush=True,
        )
        yield "balancer", "balancer openapi", None, None
        return
    (folder / "b.toml").write_text(BALANCER.format(folder=folder))
    links = "mkdir bpf; mount -t bpf bpf bpf\n"
    for name, address in (("out", "192.0.2.1/24"), ("in1", "10.1.1.1/24")):
        links += f"ip link add {name} type veth peer name {name}p; ip address add {address} dev {name}; ip link set {name} up; ip link set {name}p up\n"
    yield (
        "balancer",
        "balancer openapi",
        f"{links}exec {NW} balancer run -c b.toml",
        "balancer.sock",
    )


def check(folder, name, args, script, path):
    document = json.loads(
        subprocess.run([NW, *args.split()], capture_output=True, check=True).stdout
    )
    validate(document)
    print(f"rest: {name}: the document is valid, {len(document['paths'])} paths", flush=True)
    if script is None:
        return True
    server = Server(folder, name, script, path)
    try:
        operations = {
            operation["operationId"]
            for item in document["paths"].values()
            for operation in item.values()
        }
        excluded = [
            word
            for operation in sorted(operations & ENDS_OR_STREAMS)
            for word in ("--exclude-operation-id", operation)
        ]
        (folder / f"{name}.json").write_text(json.dumps(document))
        port = bridge(server.path)
        completed = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                "--config-file",
                HERE / "schemathesis.toml",
                "run",
                folder / f"{name}.json",
            ]
            + [
                "--url",
                f"http://127.0.0.1:{port}",
                "--phases",
                "examples,coverage,fuzzing",
                "--request-timeout",
                "30",
            ]
            # One worker: with more, Python 3.11 confuses the recursion depths of its parser
            # (cpython #106905).
            + ["--workers", "1", "--suppress-health-check", "too_slow,filter_too_much"]
            + ["--warnings", "off", "--continue-on-failure", *excluded],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=180,
            env={**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis")},
        )
        if server.process.poll() is not None:
            print(f"rest: {name} ended:\n{server.log_text()}", flush=True)
            return False
        if completed.returncode != 0:
            print(completed.stdout + completed.stderr, flush=True)
        print(
            f"rest: {name}: {'follows its document' if completed.returncode == 0 else 'FAILED'}",
            flush=True,
        )
        return completed.returncode == 0
    finally:
        server.end()


def main():
    if not shutil.which("unshare") or not shutil.which("ip"):
        raise SystemExit("tests/rest needs unshare and ip: apt install util-linux iproute2")
    expected = set(sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="nw-rest-") as folder:
        folder = Path(folder)
        servers = [server for server in start(folder) if not expected or server[0] in expected]
        results = [check(folder, *server) for server in servers]
    skipped = sum(script is None for _, _, script, _ in servers)
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed, {skipped} skipped")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
