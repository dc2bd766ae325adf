"""The Debian package: lintian, the same bytes for the same binary, and its life on a machine."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bounds
import machine
from packages import ROOT, build

OLD, NEW = "0.1.0~before", "0.1.0"
# Folders of programs that record every change of the machine.
RECORDS = re.compile(
    r"/(var/lib/(dpkg|systemd|apt)|var/log|var/cache|var/tmp|var/lock|run|tmp|media|mnt)(/|$)"
    r"|/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|/etc/(\.pwd\.lock|machine-id|\.updated)"
    r"|/var/\.updated$"
)


class Package(unittest.TestCase):
    def test_lintian_finds_no_error(self):
        if not shutil.which("lintian"):
            self.skipTest("lintian is not there: apt install lintian")
        completed = subprocess.run(
            ["lintian", "--fail-on", "error,warning", "--allow-root", build("deb", NEW)],
            check=False,
            capture_output=True,
            text=True,
            timeout=500,
        )
        self.assertEqual(completed.returncode, 0, completed.stdout + completed.stderr)

    def test_missing_binary_is_named_with_command_that_builds_it(self):
        completed = subprocess.run(
            [ROOT / "tools/package", "deb", "--binary", "/nonexistent/nw"],
            check=False,
            capture_output=True,
            text=True,
        )
        self.assertEqual(completed.returncode, 1)
        self.assertIn("/nonexistent/nw is not there: run `make build`", completed.stderr)

    def test_contents_are_complete_and_owned_by_root(self):
        listing = subprocess.run(
            ["dpkg-deb", "--contents", build("deb", NEW)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        self.assertEqual({line.split()[1] for line in listing}, {"root/root"})
        paths = {line.split()[5].removeprefix(".") for line in listing}
        for path in (
            "/usr/bin/nw",
            "/etc/namewire/nw.toml",
            "/lib/systemd/system/namewire.service",
            "/lib/systemd/system/namewire-balancer.service",
            "/lib/systemd/system/namewire-network@.service",
            "/lib/systemd/system/namewire-dv.service",
            "/lib/systemd/system/namewire-nlsr.service",
            "/usr/lib/sysusers.d/namewire.conf",
            "/usr/lib/tmpfiles.d/namewire.conf",
            "/usr/share/man/man1/nw-run.1.gz",
            "/usr/share/man/man5/nw.toml.5.gz",
            "/usr/share/bash-completion/completions/nw",
            "/usr/share/zsh/vendor-completions/_nw",
            "/usr/share/fish/vendor_completions.d/nw.fish",
        ):
            self.assertIn(path, paths)


@unittest.skipIf(machine.missing(), machine.missing() or "")
class Life(unittest.TestCase):
    """Installed, upgraded under a running download, removed and purged."""

    def setUp(self):
        self.machine = machine.Machine()
        self.addCleanup(self.machine.stop)

    def router(self):
        """Returns the process id of the router, and its version by package."""
        shown = self.machine.run(
            "systemctl", "show", "-P", "MainPID", "namewire.service"
        ).stdout.strip()
        return int(shown)

    def active(self, unit):
        return self.machine.run("systemctl", "is-active", unit, check=False).stdout.strip()

    def fetch_during_upgrade(self, package):
        content = os.urandom(24_000_000)
        files = self.machine.folder / "files"
        (files / "content").write_bytes(content)
        put = self.machine.start(
            "/usr/bin/nw", "put", "--quiet", "/upgrade/file", "/media/files/content", log="put.log"
        )
        self.addCleanup(put.kill)
        deadline = time.monotonic() + 30
        while "/upgrade/file" not in self.machine.run("nw", "route", "list").stdout:
            self.assertLess(time.monotonic(), deadline, (files / "put.log").read_text())
            time.sleep(0.1)
        # Downloads follow each other through the upgrade; at least one is running at each moment.
        script = (
            "n=0; while [ ! -e /media/files/stop ]; do n=$((n+1)); "
            "nw cat --quiet /upgrade/file -o /media/files/fetched.$n || exit 1; "
            'sha256sum "/media/files/fetched.$n"; rm "/media/files/fetched.$n"; done'
        )
        downloads = self.machine.start("sh", "-c", script, log="downloads.log")
        self.addCleanup(downloads.kill)
        log = files / "downloads.log"
        while not log.read_text():
            self.assertIsNone(downloads.poll(), log.read_text())
            time.sleep(0.05)
        before = self.router()
        self.machine.run("dpkg", "-i", package)
        self.assertNotEqual(self.router(), before, "the upgrade restarts the router")
        done = log.read_text().count("\n")
        while log.read_text().count("\n") < done + 2:
            self.assertIsNone(downloads.poll(), log.read_text())
            time.sleep(0.05)
        (files / "stop").touch()
        self.assertEqual(downloads.wait(60), 0, log.read_text())
        digests = {line.split()[0] for line in log.read_text().splitlines()}
        self.assertEqual(digests, {hashlib.sha256(content).hexdigest()})
        put.terminate()
        put.wait(20)

    def test_installed_upgraded_removed_and_purged(self):
        m = self.machine
        m.run("systemctl", "stop", "docker.socket", check=False)
        before = m.changed()
        old, new = (m.put(build("deb", version)) for version in (OLD, NEW))
        began = time.monotonic()
        m.run("dpkg", "-i", old)
        # Answered through the socket that systemd opened.
        status = m.run("nw", "status").stdout
        seconds = time.monotonic() - began
        print(f"dpkg -i to the first answer of the router: {seconds:.1f} s")
        bounds.check(self, "package/deb.first_answer_s", seconds)
        self.assertIn("listens   unix:///run/nfd/nfd.sock", status)
        self.assertEqual(self.active("namewire.service"), "active")
        self.assertEqual(self.active("namewire.socket"), "active")
        self.assertIn("namewire", m.run("ps", "-o", "user=", "-p", self.router()).stdout)
        self.assertIn(
            "enabled", m.run("systemctl", "is-enabled", "namewire.service", check=False).stdout
        )
        # The reader's pages and the manager's unit work.
        self.assertIn("NAME", m.run("man", "-P", "cat", "nw-run").stdout)
        m.run("systemd-analyze", "verify", "/lib/systemd/system/namewire-network@.service")
        self.reload_changed_configuration()
        self.fetch_during_upgrade(new)
        self.assertIn(f"Version: {NEW}", m.run("dpkg", "-s", "namewire").stdout)
        self.assertIn("/site", m.run("cat", "/etc/namewire/nw.toml").stdout)
        m.run("dpkg", "--remove", "namewire")
        self.assertEqual(self.active("namewire.service"), "inactive")
        self.assertFalse((m.folder / "upper/usr/bin/nw").exists())
        self.assertTrue((m.folder / "upper/etc/namewire/nw.toml").exists(), "kept until purged")
        m.run("dpkg", "--purge", "namewire")
        left = {path for path in m.changed() - before if not RECORDS.search(path)}
        # Folders that held files of the package are empty again.
        upper = m.folder / "upper"
        left = {path for path in left if not Path(f"{upper}{path}").is_dir() or "name" in path}
        self.assertEqual(left, set())
        self.assertNotIn("namewire", m.run("cat", "/etc/passwd", "/etc/group").stdout)
        self.assertEqual(m.run("sh", "-c", "ls -d /run/nfd /run/namewire", check=False).stdout, "")

    def reload_changed_configuration(self):
        m = self.machine
        script = (
            'printf \'[[route]]\\nprefix = "/site"\\nface = "udp4://127.0.0.1:7777"\\n\' '
            ">>/etc/namewire/nw.toml; nw config --check /etc/namewire/nw.toml"
        )
        m.run("sh", "-c", script)
        m.run("systemctl", "reload", "namewire.service")
        deadline = time.monotonic() + 20
        while "/site" not in m.run("nw", "route", "list").stdout:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main()
