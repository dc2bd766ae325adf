"""`nw network up --engine docker`: a network of containers that carries packets and heals."""

import json
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

from container_engine import NW, TIMEOUT_S, EngineTest, wait_until

CHAIN = Path(__file__).resolve().parents[2] / "examples/networks/chain.graph"
LABEL = "label=dev.namewire.network"
OTHER_IMAGE = "namewire:other"


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Network(EngineTest):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="nw-net-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, *command):
        log = (self.folder / "log").open("a")
        child = subprocess.Popen(
            [NW, *command], stdout=log, stderr=log, env=self.engine.environment
        )
        log.close()
        self.addCleanup(child.wait, TIMEOUT_S)
        self.addCleanup(child.send_signal, signal.SIGTERM)
        return child

    def nw(self, *command, check=True):
        return self.engine.run(NW, *command, check=check).stdout

    def containers(self):
        return set(self.engine.docker("ps", "--quiet", "--filter", LABEL).split())

    def can_ping(self):
        entry = f"unix://{self.folder}/chain.sock"
        command = [NW, "ping", "/p", "-c", "1", "-s", entry]
        return self.engine.run(*command, check=False).returncode == 0

    def test_network_of_containers_carries_packets_and_heals(self):
        text = CHAIN.read_text()
        text = re.sub(r"/tmp/nw-network-(\w+).sock", rf"{self.folder}/\1.sock", text)
        document = self.folder / "chain.graph"
        document.write_text(text)
        producer = f"unix://{self.folder}/producer.sock"
        self.start("run", "--socket", producer.removeprefix("unix://"), "--port", str(free_port()))
        wait_until(lambda: Path(producer.removeprefix("unix://")).exists(), "the router")
        self.start("ping-server", "/p", "-s", producer)
        networks = ("--directory", str(self.folder / "networks"))
        options = ("--engine", "docker", "--image", self.IMAGE, *networks)
        self.start("network", "up", *options, str(document))
        wait_until(self.can_ping, "an exchange through the network")
        before = self.containers()
        self.assertEqual(len(before), 3)
        state = json.loads(self.nw("network", "show", *networks, "--json"))
        self.assertIn("chain", json.dumps(state))

        # A container that is killed is replaced.
        victim = min(before)
        self.engine.docker("kill", victim)
        wait_until(lambda: len(self.containers()) == 3, "three containers again")
        wait_until(self.can_ping, "an exchange after a container was killed")
        self.assertNotIn(victim, self.containers())

        # Another image replaces all containers, and clients connect again.
        old = self.containers()
        self.engine.docker("tag", self.IMAGE, OTHER_IMAGE)
        host = f"host here = process image={OTHER_IMAGE}"
        document.write_text(text.replace("host here = process", host))
        self.nw("network", "apply", *networks, str(document))
        wait_until(lambda: not old & self.containers(), "no container of the first image")
        wait_until(lambda: len(self.containers()) == 3, "three containers of the other image")
        wait_until(self.can_ping, "an exchange through containers of the other image")
        images = self.engine.docker("ps", "--format", "{{.Image}}", "--filter", LABEL).split()
        self.assertEqual(images, [OTHER_IMAGE] * 3)

        self.nw("network", "down", *networks)
        wait_until(lambda: not self.containers(), "no container")
        left = self.engine.docker("ps", "--all", "--quiet", "--filter", LABEL)
        self.assertEqual(left, "")


if __name__ == "__main__":
    unittest.main()
