"""The manager's Docker engine with a real one: `crates/manager/tests/docker_engine.rs`."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

from container_engine import NW, EngineTest

ROOT = Path(__file__).resolve().parents[2]


class Instances(EngineTest):
    def test_instances_run_as_containers(self):
        environment = {"NW_DOCKER_IMAGE": self.IMAGE, "NW_BIN": NW}
        # Compiled before, as HOME of the tests' engine has no toolchain.
        command = ["cargo", "test", "--no-run", "-p", "nw-manager", "--test", "docker_engine"]
        built = self.compile([*command, "--message-format=short"])
        done = self.engine.run(built, "--nocapture", env=environment, check=False)
        sys.stderr.write(done.stderr)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("2 passed", done.stdout)
        self.assertNotIn("skipped", done.stderr)
        left = self.engine.docker(
            "ps", "--all", "--quiet", "--filter", "label=dev.namewire.network"
        )
        self.assertEqual(left, "")

    def compile(self, command):
        done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = re.search(r"Executable .*\((.*)\)", done.stderr)
        return ROOT / found.group(1)


if __name__ == "__main__":
    unittest.main()
