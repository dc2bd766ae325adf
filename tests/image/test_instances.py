"""The manager's Docker engine with a real one: `crates/manager/tests/docker_engine.rs`."""

import os
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
        # Compiled before, as HOME of the tests' engine has no toolchain: by the checks, or here.
        built = os.environ.get("NW_MANAGER_TESTS") or self.compile()
        command = [built, "docker_engine", "--nocapture"]
        done = self.engine.run(*command, env=environment, check=False)
        sys.stderr.write(done.stderr)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("2 passed", done.stdout)
        self.assertNotIn("skipped", done.stderr)
        left = self.engine.docker(
            "ps", "--all", "--quiet", "--filter", "label=dev.namewire.network"
        )
        self.assertEqual(left, "")

    def compile(self):
        command = ["cargo", "test", "--profile", "checks", "--no-run", "-p", "nw-manager"]
        command += ["--test", "all", "--message-format=short"]
        done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = re.search(r"Executable .*\((.*)\)", done.stderr)
        return ROOT / found.group(1)


if __name__ == "__main__":
    unittest.main()
