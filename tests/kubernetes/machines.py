"""Machines of the test cluster: each is a process with network, mounts and processes of its own.

The first process of a machine holds its namespaces. When it ends, the kernel ends every other
process of the machine and removes its mounts and interfaces, so nothing can be left behind.
"""

import os
import pathlib
import signal
import subprocess
import time

# Bash waits for every process that loses its parent; a plain sleep would leave zombies.
FIRST_PROCESS = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"
# The kubelet sets these values of the whole computer. Inside a node, files stand for them.
KUBELET_VALUES = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
END_TIMEOUT_S = 10


class Machine:
    """A machine with its folder; `pid` is its first process, as the computer counts."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = pathlib.Path(folder)

    @property
    def pid(self):
        try:
            pid, started = (self.folder / "pid").read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid) if start_time(int(pid)) == started else None

    def start(self):
        """Starts the first process and gives the machine folders of its own for its state."""
        self.folder.mkdir(parents=True)
        (self.folder / "logs").mkdir()
        process = subprocess.Popen(
            [
                *("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc"),
                *("--propagation", "private", "--", "bash", "-c", FIRST_PROCESS),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        pid = _only_child(process.pid)
        (self.folder / "pid").write_text(f"{pid} {start_time(pid)}")
        # The namespaces are whole once the machine has its own /proc.
        deadline = time.monotonic() + END_TIMEOUT_S
        while self.run("cat", "/proc/1/comm", check=False).stdout.strip() != "bash":
            if time.monotonic() > deadline:
                raise RuntimeError(f"the machine {self.name} does not start")
            time.sleep(0.02)
        self.run("ip", "link", "set", "lo", "up")
        self.run("mount", "-t", "tmpfs", "tmpfs", "/run")
        for target in ("/var/log", "/var/lib/cni", "/var/lib/kubelet", "/var/lib/containerd"):
            self._own(target)
        values = self.folder / "values"
        for name, value in KUBELET_VALUES.items():
            path = values / name.replace("/", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{value}\n")
            self.run("mount", "--bind", path, f"/proc/sys/{name}")

    def _own(self, target):
        """Puts a folder of this machine in the place of a folder of the computer."""
        source = self.folder / target.strip("/").replace("/", "-")
        source.mkdir()
        made = not pathlib.Path(target).exists()
        pathlib.Path(target).mkdir(parents=True, exist_ok=True)
        if made:
            with (self.folder.parent / "made").open("a") as list_of_folders:
                list_of_folders.write(f"{target}\n")
        self.run("mount", "--bind", source, target)

    def enter(self, *command):
        """The command line that runs a command in this machine."""
        namespaces = ("--net", "--mount", "--pid")
        return ["nsenter", "--target", str(self.pid), *namespaces, "--", *map(str, command)]

    def run(self, *command, check=True, **more):
        done = subprocess.run(
            self.enter(*command), check=False, capture_output=True, text=True, cwd="/", **more
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{self.name}: {' '.join(map(str, command))}: {done.stderr}")
        return done

    def spawn(self, name, *command, environment=None):
        """Starts a program that runs until the machine ends; its output is in `logs/NAME`."""
        with (self.folder / "logs" / name).open("a") as log:
            subprocess.Popen(
                self.enter(*command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env=os.environ | (environment or {}),
            )

    def log_end(self, name):
        """The last lines of a program's output."""
        path = self.folder / "logs" / name
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join(lines[-5:])

    def end(self):
        """Ends the machine at once, as a power cut would."""
        pid = self.pid
        if pid is None:
            return
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + END_TIMEOUT_S
        while self.pid is not None and time.monotonic() < deadline:
            time.sleep(0.02)


def start_time(pid):
    """The time at which a process started, in clock ticks; empty if there is none."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _only_child(pid):
    deadline = time.monotonic() + END_TIMEOUT_S
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    while time.monotonic() < deadline:
        try:
            children = path.read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            break
        if children:
            return int(children[0])
        time.sleep(0.01)
    raise RuntimeError("no namespaces can be made here: unshare ended (see `unshare --net true`)")
