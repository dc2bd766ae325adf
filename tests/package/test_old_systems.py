"""The release on the oldest systems that it is for, Debian 11 and Ubuntu 20.04: their base packages
in a folder, and the program of the release as an ordinary user in it.

Building the release and fetching the packages takes minutes, so this runs if NW_OLD_SYSTEMS is set:

    NW_OLD_SYSTEMS=build tests/package/run test_old_systems       builds and fetches what is missing
    NW_OLD_SYSTEMS=unchecked tests/package/run test_old_systems   also without the archive's keys

A distribution's packages are checked with the keys of its archive; `unchecked` is for a machine
where no package has the keys of Ubuntu. NW_OLD_RELEASE names the folder of a release that exists.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

from packages import ROOT

MODE = os.environ.get("NW_OLD_SYSTEMS", "")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "namewire-tests"
# Name, keys of the archive, options. Ubuntu's packages are unpacked but not configured: none of its
# scripts runs as root, also when its keys are not there.
SYSTEMS = {
    "bullseye": ("Debian 11", "/usr/share/keyrings/debian-archive-keyring.gpg", []),
    "focal": ("Ubuntu 20.04", "/usr/share/keyrings/ubuntu-archive-keyring.gpg", ["--foreign"]),
}
# glibc of both.
GLIBC = "2.31"
BUILD_S, FETCH_S, RUN_S = 3600, 900, 60
# A build for the tests: linked and run like the release, but faster to compile.
CHEAP = {
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_RELEASE_DEBUG": "false",
    "PACKAGE_LEVEL": "0",
}
# The system's files are not changed: what the program writes is on temporary file systems.
ENTER = """
set -e
ip link set lo up
mount --make-rprivate /
mount --bind "$1" "$1"
mount -o remount,ro,bind "$1"
mount -t proc proc "$1/proc"
for path in run tmp dev; do mount -t tmpfs -o mode=1777 tmpfs "$1/$path"; done
for device in null zero random urandom; do
  touch "$1/dev/$device"
  mount --bind "/dev/$device" "$1/dev/$device"
done
ln -s /proc/self/fd "$1/dev/fd"
cp "$2" "$1/tmp/nw"
cp "$3" "$1/tmp/old_system.sh"
exec chroot --userspec=65534:65534 "$1" /usr/bin/env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 \\
  sh /tmp/old_system.sh /tmp/nw
"""

# $1: a system, $2: a temporary folder, $3: the package. Changes are on an overlay.
INSTALL = """
set -e
mount --make-rprivate /
system=$2/system
mkdir "$2/upper" "$2/work" "$system"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$system"
mount -t proc proc "$system/proc"
cp "$3" "$system/tmp/namewire.deb"
exec chroot "$system" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 sh -ec '
  dpkg --install /tmp/namewire.deb
  dpkg --verify namewire
  nw --version
  dpkg --purge namewire
  test ! -e /usr/bin/nw && test ! -e /etc/namewire
  echo done
'
"""


def missing():
    if MODE not in ("build", "unchecked"):
        return "running the release on old systems takes minutes"
    if os.geteuid() != 0:
        return "the systems' packages are unpacked by root"
    for program in ("debootstrap", "unshare", "chroot", "ip"):
        if not shutil.which(program):
            return f"{program} is not there"
    if "NW_OLD_RELEASE" not in os.environ and not shutil.which("cargo-zigbuild"):
        return "cargo-zigbuild is not there: pip install ziglang cargo-zigbuild"
    return None


def run(*args, timeout, **options):
    return subprocess.run(
        [str(word) for word in args],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        **options,
    )


@unittest.skipIf(missing(), missing() or "")
class OldSystems(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.release = Path(os.environ.get("NW_OLD_RELEASE") or cls.built())
        folder = tempfile.TemporaryDirectory(prefix="nw-old-")
        cls.addClassCleanup(folder.cleanup)
        (archive,) = cls.release.glob("namewire-*-x86_64-linux.tar.xz")
        run("tar", "-xf", archive, "-C", folder.name, timeout=60)
        (cls.program,) = Path(folder.name).glob("*/bin/nw")

    @classmethod
    def built(cls):
        """Returns the folder of a release that tools/release makes from the last commit."""
        output = CACHE / "release"
        shutil.rmtree(output, ignore_errors=True)
        print("building the release for glibc 2.31", file=sys.stderr)
        words = ["HEAD", "--output", output, "--work", CACHE / "release-work"]
        completed = run(
            ROOT / "tools/release", *words, timeout=BUILD_S, env={**os.environ, **CHEAP}
        )
        if completed.returncode != 0:
            raise AssertionError(completed.stdout[-4000:])
        return output

    def system(self, suite):
        """Returns the folder of a distribution's base packages."""
        description, keys, options = SYSTEMS[suite]
        root = CACHE / "systems" / suite
        if root.exists():
            return root
        options = [*options, "--variant=minbase"]
        if Path(keys).exists():
            options.append(f"--keyring={keys}")
        elif MODE == "unchecked":
            options.append("--no-check-gpg")
        else:
            self.skipTest(f"the keys of {description}'s archive are not there: {keys}")
        root.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=suite, dir=root.parent) as folder:
            print(f"fetching the base packages of {description}", file=sys.stderr)
            folder = Path(folder) / "root"
            completed = run("debootstrap", *options, suite, folder, timeout=FETCH_S)
            if completed.returncode != 0:
                problem = completed.stdout.strip().splitlines()[-1]
                self.skipTest(f"{description} can't be fetched: {problem}")
            folder.rename(root)
        return root

    def runs_on(self, suite):
        root = self.system(suite)
        release = (root / "etc/os-release").read_text()
        print(re.search(r'PRETTY_NAME="(.*)"', release)[1], file=sys.stderr)
        script = Path(__file__).parent / "old_system.sh"
        completed = run(
            "unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "bash", "-c",
            ENTER, "enter", root, self.program, script, timeout=RUN_S,
        )  # fmt: skip
        print(completed.stdout, file=sys.stderr)
        self.assertEqual(completed.returncode, 0, completed.stdout)
        version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"][
            "version"
        ]
        for expected in (f"nw {version}", "file: 3000000 bytes", "\ndone\n"):
            self.assertIn(expected, completed.stdout)

    def test_release_runs_on_debian_11(self):
        self.runs_on("bullseye")

    def test_release_runs_on_ubuntu_20_04(self):
        self.runs_on("focal")

    def test_package_asks_for_no_newer_library_than_the_systems_have(self):
        (package,) = self.release.glob("namewire_*.deb")
        depends = run("dpkg-deb", "--field", package, "Depends", timeout=60).stdout
        print(depends.strip(), file=sys.stderr)
        wanted = re.search(r"libc6 \(>= ([^)]*)\)", depends)[1]
        compared = run("dpkg", "--compare-versions", GLIBC, "ge", wanted, timeout=60)
        self.assertEqual(compared.returncode, 0, depends)

    def test_package_is_installed_and_purged_on_debian_11(self):
        root = self.system("bullseye")
        (package,) = self.release.glob("namewire_*.deb")
        with tempfile.TemporaryDirectory(prefix="nw-old-") as folder:
            completed = run(
                "unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "bash", "-c",
                INSTALL, "install", root, folder, package, timeout=RUN_S,
            )  # fmt: skip
        self.assertEqual(completed.returncode, 0, completed.stdout)
        self.assertIn("\ndone\n", completed.stdout)


if __name__ == "__main__":
    unittest.main()
