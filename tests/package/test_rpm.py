"""The RPM package: its fields and files, and its life on a machine. rpm's database is empty there,
so dependencies are listed, not resolved."""

import shutil
import subprocess
import time
import unittest

import machine
from packages import build

REASON = None if shutil.which("rpmbuild") else "rpmbuild is not there: apt install rpm"
OLD, NEW = "0.0.9", "0.1.0"


def query(package, *args):
    return subprocess.run(
        ["rpm", "-qp", *args, package], capture_output=True, text=True, check=True
    ).stdout


@unittest.skipIf(REASON, REASON or "")
class Fields(unittest.TestCase):
    def test_query_shows_fields_files_and_configuration(self):
        package = build("rpm", NEW)
        self.assertIn("Version     : 0.1.0\n", query(package, "-i"))
        paths = set(query(package, "-l").splitlines())
        for path in (
            "/usr/bin/nw",
            "/usr/lib/systemd/system/namewire.service",
            "/usr/share/man/man1/nw.1.gz",
            "/usr/share/zsh/site-functions/_nw",
        ):
            self.assertIn(path, paths)
        self.assertEqual(query(package, "-c").split(), ["/etc/namewire/nw.toml"])
        self.assertIn("libc.so.6", query(package, "--requires"))


@unittest.skipIf(REASON or machine.missing(), REASON or machine.missing() or "")
class Life(unittest.TestCase):
    def setUp(self):
        self.machine = machine.Machine()
        self.addCleanup(self.machine.stop)

    def test_installed_upgraded_and_erased(self):
        m = self.machine
        old, new = (m.put(build("rpm", version)) for version in (OLD, NEW))
        m.run("rpm", "-i", "--nodeps", old)
        self.assertIn("unix:///run/nfd/nfd.sock", m.run("nw", "status").stdout)
        pid = m.run("systemctl", "show", "-P", "MainPID", "namewire").stdout
        m.run("sh", "-c", "echo '# changed' >>/etc/namewire/nw.toml")
        m.run("rpm", "-U", "--nodeps", new)
        self.assertNotEqual(m.run("systemctl", "show", "-P", "MainPID", "namewire").stdout, pid)
        self.assertIn("unix:///run/nfd/nfd.sock", m.run("nw", "status").stdout)
        self.assertIn("# changed", m.run("cat", "/etc/namewire/nw.toml").stdout)
        m.run("rpm", "-e", "namewire")
        deadline = time.monotonic() + 20
        while m.run("pgrep", "-x", "nw", check=False).stdout:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        left = [path for path in m.changed() if path.startswith(("/usr/", "/lib/"))]
        left = [path for path in left if "namewire" in path or path.endswith("/nw")]
        self.assertEqual(left, [])
        self.assertNotIn("namewire", m.run("cat", "/etc/passwd").stdout)


if __name__ == "__main__":
    unittest.main()
