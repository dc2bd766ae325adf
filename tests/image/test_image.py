"""`nw image build`, and what it writes in the Docker engine, in containerd and with Compose."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from container_engine import NW, EngineTest, wait_until

COMPOSE = Path(__file__).resolve().parents[2] / "deploy/compose/compose.yaml"


class Command(unittest.TestCase):
    def build(self, *arguments, **environment):
        self.folder = tempfile.mkdtemp(prefix="nw-image-")
        self.addCleanup(shutil.rmtree, self.folder)
        return subprocess.run(
            [NW, "image", "build", *arguments],
            check=False,
            cwd=self.folder,
            env=os.environ | environment,
            capture_output=True,
            text=True,
        )

    def test_source_date_epoch_sets_the_time_and_the_bytes(self):
        digests = []
        for date in ("86400", "86400", "0"):
            done = self.build("--binary", "/bin/true", "--format", "oci", SOURCE_DATE_EPOCH=date)
            self.assertEqual(done.returncode, 0, done.stderr)
            index = (Path(self.folder) / "namewire-image/index.json").read_bytes()
            digests.append(hashlib.sha256(index).hexdigest())
        self.assertEqual(digests[0], digests[1])
        self.assertNotEqual(digests[0], digests[2])

    def test_wrong_arguments_are_refused_with_a_remedy(self):
        for arguments, status, words in [
            (("--tag", "Name:1"), 2, "not an image name"),
            (("--label", "x"), 2, "give KEY=VALUE"),
            (("--binary", "/etc/passwd"), 1, "--binary names an nw executable"),
            (("--sysroot", "/none"), 1, "can't read /none"),
            (("--output", "/none/x.tar", "--binary", "/bin/true"), 1, "can't write /none/x.tar"),
        ]:
            done = self.build(*arguments)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(words, done.stderr)
        done = self.build(SOURCE_DATE_EPOCH="yesterday")
        self.assertEqual(done.returncode, 1)
        self.assertIn("git log -1 --format=%ct", done.stderr)

    def test_release_image_is_under_thirty_megabytes(self):
        done = self.build("--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads(done.stdout)
        self.assertLess(summary["compressed_bytes"], 30_000_000)


class Engine(EngineTest):
    def container(self, *arguments):
        found = self.engine.docker("run", "--detach", *arguments)
        self.addCleanup(self.engine.docker, "rm", "--force", found)
        return found

    def test_container_runs_as_its_user_and_becomes_healthy(self):
        version = self.engine.docker("run", "--rm", self.IMAGE, "--version")
        self.assertRegex(version, r"^nw \d+\.\d+")
        router = self.container("--health-interval=500ms", "--network=none", self.IMAGE)
        self.assertEqual(self.inspect(router, "{{.Config.User}}"), "65532:65532")
        pid = self.inspect(router, "{{.State.Pid}}")
        status = Path(f"/proc/{pid}/status").read_text()
        self.assertIn("Uid:\t65532\t65532\t65532\t65532", status)
        wait_until(
            lambda: self.inspect(router, "{{.State.Health.Status}}") == "healthy", "healthy", 20
        )
        labels = json.loads(self.inspect(router, "{{json .Config.Labels}}"))
        self.assertEqual(labels["org.opencontainers.image.title"], "Namewire")
        # SIGTERM ends the router, long before the engine would kill it.
        started = time.monotonic()
        self.engine.docker("stop", "--time", "20", router)
        self.assertLess(time.monotonic() - started, 10)
        self.assertEqual(self.inspect(router, "{{.State.ExitCode}}"), "0")

    def test_router_that_does_not_answer_is_unhealthy(self):
        options = ("--health-interval=300ms", "--health-retries=2", "--health-start-period=0s")
        # `nw` waits for packets at a socket that is not the router's: `nw status` finds no router.
        other = ("run", "--socket", "/tmp/other.sock")
        router = self.container(*options, "--network=none", self.IMAGE, *other)
        wait_until(
            lambda: self.inspect(router, "{{.State.Health.Status}}") == "unhealthy", "unhealthy", 20
        )

    def inspect(self, container, form):
        return self.engine.docker("inspect", "--format", form, container)

    def test_compose_network_carries_a_file_over_three_routers(self):
        if not shutil.which("docker-compose"):
            self.skipTest("docker-compose not found: apt-get install docker-compose")
        compose = ("docker-compose", "-f", COMPOSE, "-p", "nwtest")
        environment = {"NW_IMAGE": self.IMAGE}

        def run(*arguments, **more):
            return self.engine.run(*compose, *arguments, env=environment, **more)

        self.addCleanup(run, "down", "--volumes", "--timeout", "2")
        run("up", "--detach")
        wait_until(lambda: run("ps").stdout.count("(healthy)") == 3, "three healthy routers")
        content = os.urandom(3_000_000)
        site = run("ps", "-q", "site").stdout.strip()
        edge = run("ps", "-q", "edge").stdout.strip()
        producer = subprocess.Popen(
            ["docker", "exec", "-i", site, "/usr/bin/nw", "put", "/site/file"],
            env=self.engine.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(producer.wait)
        self.addCleanup(producer.kill)
        producer.stdin.write(content)
        producer.stdin.close()

        def fetch():
            command = ["docker", "exec", edge, "/usr/bin/nw", "cat", "/site/file"]
            done = subprocess.run(
                command, check=False, env=self.engine.environment, capture_output=True
            )
            return done.returncode == 0 and done.stdout == content

        wait_until(fetch, "the file at the edge")

    def test_containerd_imports_and_runs_the_same_archive(self):
        self.engine.ctr("images", "import", self.archive)
        name = f"docker.io/library/{self.IMAGE}"
        self.addCleanup(self.engine.ctr, "images", "rm", name)
        self.assertIn("complete (3/3)", self.engine.ctr("images", "check"))
        output = self.engine.ctr("run", "--rm", name, "nw-test-1", "/usr/bin/nw", "--version")
        self.assertRegex(output, r"^nw \d+\.\d+")


if __name__ == "__main__":
    unittest.main()
