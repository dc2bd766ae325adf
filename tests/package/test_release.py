"""tools/release: all artefacts from a commit, with the same bytes each time; the bill of materials;
and which systems the binary runs on."""

import filecmp
import json
import os
import shutil
import subprocess
import tempfile
import tomllib
import unittest
from pathlib import Path

from packages import NW, ROOT

TIMEOUT_S = 300


def missing():
    for program in ("rpmbuild", "dpkg-shlibdeps", "objdump", "xz"):
        if not shutil.which(program):
            return f"{program} is not there"
    return None


def release(output, *args):
    return subprocess.run(
        [ROOT / "tools/release", "HEAD", "--output", output, "--binary", NW, *args],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "PACKAGE_LEVEL": "0"},
    )


@unittest.skipIf(missing(), missing() or "")
class Release(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="nw-release-")))

    def test_two_runs_give_the_same_artefacts(self):
        first, second = self.folder / "first", self.folder / "second"
        for output in (first, second):
            completed = release(output, "--any-glibc")
            self.assertEqual(completed.returncode, 0, completed.stderr)
            self.assertIn("for glibc 2.", completed.stdout)
        names = sorted(path.name for path in first.iterdir())
        version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"][
            "version"
        ]
        for name in (
            "SHA256SUMS",
            f"namewire-{version}-sources.tar.xz",
            f"namewire-{version}-x86_64-linux.tar.xz",
            f"namewire-{version}.cdx.json",
            f"namewire_{version}_amd64.deb",
        ):
            self.assertIn(name, names)
        self.assertEqual(sum(name.endswith(".rpm") for name in names), 1, names)
        same, different, unreadable = filecmp.cmpfiles(first, second, names, shallow=False)
        self.assertEqual((sorted(same), different, unreadable), (names, [], []))
        sums = subprocess.run(
            ["sha256sum", "--check", "--strict", "SHA256SUMS"],
            check=False,
            cwd=first,
            capture_output=True,
            text=True,
        )
        self.assertEqual(sums.returncode, 0, sums.stdout + sums.stderr)
        self.assertEqual(len(sums.stdout.splitlines()), len(names) - 1)
        self.unpacked_program_runs(first / f"namewire-{version}-x86_64-linux.tar.xz", version)
        self.bill_lists_what_is_linked(first / f"namewire-{version}.cdx.json")
        # A folder with files is not mixed with another release.
        self.assertIn("is not empty", release(first).stderr)

    def unpacked_program_runs(self, archive, version):
        subprocess.run(["tar", "-xf", archive, "-C", self.folder], check=True)
        program = self.folder / f"namewire-{version}-x86_64-linux/bin/nw"
        output = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
        self.assertIn(version, output.stdout)

    def bill_lists_what_is_linked(self, path):
        bill = json.loads(path.read_text())
        self.assertEqual((bill["bomFormat"], bill["specVersion"]), ("CycloneDX", "1.5"))
        lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
        locked = {
            (package["name"], package["version"]): package.get("checksum") for package in lock
        }
        components = {(made["name"], made["version"]): made for made in bill["components"]}
        self.assertLessEqual(set(components), set(locked))
        names = {name for name, _ in components}
        self.assertLessEqual({"nw-router", "rustix", "serde", "aws-lc-rs", "clap"}, names)
        self.assertTrue(names.isdisjoint({"proptest", "xtask", "nw-hosts"}), "not linked")
        for key, made in components.items():
            self.assertTrue(made["licenses"][0]["expression"], key)
            if locked[key]:
                self.assertEqual(made["hashes"][0]["content"], locked[key], key)
        references = {made["ref"] for made in bill["dependencies"]}
        self.assertEqual(len(references), len(components) + 1)
        for made in bill["dependencies"]:
            self.assertLessEqual(set(made["dependsOn"]), references)

    def test_release_of_wrong_tag_or_new_glibc_is_refused(self):
        unknown = subprocess.run(
            [ROOT / "tools/release", "v99"], check=False, capture_output=True, text=True
        )
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("there is no tag or commit v99: git tag lists all", unknown.stderr)
        symbols = subprocess.run(["objdump", "-T", NW], check=True, capture_output=True, text=True)
        is_new = any(f"GLIBC_2.{minor})" in symbols.stdout for minor in range(32, 60))
        completed = release(self.folder / "out")
        if is_new:
            self.assertEqual(completed.returncode, 1)
            self.assertIn("newer than 2.31 of Debian 11 and Ubuntu 20.04", completed.stderr)
        else:
            self.assertEqual(completed.returncode, 0, completed.stderr)


if __name__ == "__main__":
    unittest.main()
