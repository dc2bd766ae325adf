"""A machine for package tests: systemd as process 1, in namespaces of its own, on an overlay of
this machine's files. What is installed there changes a temporary folder only.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

CGROUP_ROOTS = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")
START_S = 60
COMMAND_S = 120
# The kernel's devices that programs expect; others of this machine stay out of reach.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

BOOT = """
set -e
root=$1/root
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for path in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$path"; done
chmod 1777 "$root/tmp"
for device in $2; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/media/files"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount --bind "$1/files" "$root/media/files"
# Images of containers forbid that packages start programs.
rm -f "$root/usr/sbin/policy-rc.d"
echo 5c3a1d0f7a0b4a6f9d7a6f3f0c1e2b4d >"$root/etc/machine-id"
ip link set lo up
cd "$root"
pivot_root . mnt
umount -l mnt
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=namewire \\
  /lib/systemd/systemd --unit=basic.target --log-target=null
"""


def missing():
    """Returns the reason why no such machine can run here, or None."""
    if os.geteuid() != 0:
        return "a machine for packages needs root"
    if not Path("/lib/systemd/systemd").exists():
        return "systemd is not there"
    for command in ("unshare", "nsenter", "pivot_root", "ip"):
        if not shutil.which(command):
            return f"{command} is not there"
    if cgroup_root() is None:
        return "no cgroup version 2 hierarchy is mounted"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlay file system"
    return None


def cgroup_root():
    for root in map(Path, CGROUP_ROOTS):
        if (root / "cgroup.controllers").exists():
            return root
    return None


class Machine:
    """Starts when made; `stop` ends all of its processes and removes its files."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="nw-package-"))
        for name in ("upper", "work", "root", "files"):
            (self.folder / name).mkdir()
        self.cgroup = cgroup_root() / self.folder.name
        self.cgroup.mkdir()
        arguments = ["bash", "-c", BOOT, "boot", str(self.folder), " ".join(DEVICES)]
        namespaces = ["--mount", "--pid", "--fork", "--net", "--ipc", "--uts", "--cgroup"]
        # Open as long as the machine runs.
        self.log = open(self.folder / "log", "w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            # The shell joins the group, then becomes unshare.
            ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', self.cgroup]
            + ["unshare", *namespaces, "--kill-child", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )
        try:
            self.init = self.wait_for_init()
        except Exception:
            self.stop()
            raise

    def wait_for_init(self):
        """Returns the process id of systemd once it has started its units."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for child in children.read_text().split():
                if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    self.init = child
                    state = self.run("systemctl", "is-system-running", check=False)
                    if state.stdout.strip() in ("running", "degraded"):
                        return child
            time.sleep(0.1)
        self.log.seek(0)
        raise RuntimeError(f"systemd did not start in the machine: {self.log.read()}")

    def command(self, *args):
        return ["nsenter", "-t", self.init, "-a", "-r", "-W/", *map(str, args)]

    def run(self, *args, check=True, timeout=COMMAND_S):
        """Runs a command there, and returns its output."""
        completed = subprocess.run(
            self.command(*args),
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"},
        )
        if check and completed.returncode != 0:
            raise AssertionError(
                f"{args} ended with {completed.returncode}: {completed.stdout}{completed.stderr}"
            )
        return completed

    def start(self, *args, log):
        """Starts a command there that runs on, with a log below `files`."""
        with open(self.folder / "files" / log, "w") as out:
            return subprocess.Popen(
                self.command(*args), stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def put(self, path):
        """Makes a file of this machine readable there, and returns its path there."""
        shutil.copy(path, self.folder / "files")
        return f"/media/files/{Path(path).name}"

    def changed(self):
        """Returns the paths that differ from this machine's files, without those of temporary
        file systems."""
        upper = self.folder / "upper"
        return {"/" + str(path.relative_to(upper)) for path in upper.rglob("*")}

    def stop(self):
        # The end of process 1 ends all others of its namespace.
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()
        deadline = time.monotonic() + 20
        while self.cgroup.exists() and time.monotonic() < deadline:
            for folder, _, _ in os.walk(self.cgroup, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)
