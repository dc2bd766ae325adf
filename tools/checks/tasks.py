"""One command of a check: how it runs, and what its output says."""

import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import evidence

from . import ROOT

# What the test programs print: libtest, unittest, and this project's own runners.
LIBTEST = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
LIBTEST_FAILED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. FAILED$")
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ")
UNITTEST_END = re.compile(r"^(?:OK|FAILED)(?: \((.*)\))?$")
UNITTEST_FAILED = re.compile(r"^(?:FAIL|ERROR): \w+ \((test_\w+(?:\.\w+){1,2})\)")
CONFORMANCE_FAILED = re.compile(r"^FAIL (\S+@\S+)$")
OWN = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\b")
IGNORED = re.compile(r"^test (\S+) \.\.\. ignored(?:, (.*))?$")
SKIP = re.compile(
    r"""^(?:.*\.\.\. )?skipped:? +(?P<quote>['"]?)(?P<reason>.*)(?P=quote)$""", re.IGNORECASE
)
QUIET_LINE = re.compile(
    r"^(test .* \.\.\. ok|running \d+ tests?|test result: ok\..*|\s*|\s+(Running|Doc-tests) .*)$"
)

# A task that takes longer has hung.
LIMIT_S = 900
# A network and a mount namespace with the interface and the routes of a machine, so that ports and
# names of namespaces of two tasks never meet. Names of hosts are refused at once.
RESOLVER = pathlib.Path(__file__).with_name("resolv.conf")
ISOLATED = r"""
mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs /run/netns || exit 125
ip link set lo up && ip link add eth0 type veth peer name eth0-peer || exit 125
ip address add 198.18.0.2/24 dev eth0 && ip link set eth0-peer up && ip link set eth0 up || exit 125
ip route add default via 198.18.0.1 || exit 125
if [ -e /etc/resolv.conf ]; then mount --bind "$0" /etc/resolv.conf || exit 125; fi
exec "$@"
"""


@dataclasses.dataclass
class Task:
    """One command. `folder`: where it runs; `names_after`: words that come before names of tests
    which are to run alone."""

    step: str
    name: str
    command: list
    environment: dict = dataclasses.field(default_factory=dict)
    folder: str = str(ROOT)
    is_alone: bool = False
    is_cargo: bool = False
    is_quiet: bool = False
    # Not for what needs a registry, nor for cargo.
    is_isolated: bool = True
    is_repeatable: bool = True
    names_after: str = ""
    limit_s: int = LIMIT_S

    def only(self, tests):
        """The same for some of its tests."""
        words = [self.names_after] if self.names_after else []
        # A file is the first argument; the names of its tests contain it.
        command = self.command[:1] if self.command[0].endswith("/run") else self.command
        return dataclasses.replace(self, command=[*command, *words, *tests], is_quiet=False)


@dataclasses.dataclass
class Outcome:
    """What a task came to: counts, names and the reasons of skipped checks."""

    task: Task
    status: int = 0
    passed: int = 0
    failed: int = 0
    skips: list = dataclasses.field(default_factory=list)
    failures: list = dataclasses.field(default_factory=list)
    lines: list = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    processor_seconds: float = 0.0
    # What each test came to, by the names of tests/evidence.py.
    results: dict = dataclasses.field(default_factory=dict)
    _ran: int = 0
    _evidence: evidence.Output | None = None

    @property
    def is_ok(self):
        return self.status == 0

    def names_are_known(self):
        """Whether each failure has a name, so that it can be repeated."""
        return self.failed > 0 and len(self.failures) == self.failed

    def read(self, line):
        self.lines.append(line)
        self._evidence = self._evidence or evidence.Output(
            evidence.suite_of(" ".join(map(str, self.task.command)))
        )
        evidence.add(self.results, self._evidence.read(line))
        if found := LIBTEST.match(line):
            self.passed += int(found[1])
            self.failed += int(found[2])
        elif (
            found := LIBTEST_FAILED.match(line)
            or UNITTEST_FAILED.match(line)
            or CONFORMANCE_FAILED.match(line)
        ):
            self.failures.append(found[1])
        elif found := UNITTEST_RAN.match(line):
            self._ran = int(found[1])
        elif self._ran and (found := UNITTEST_END.match(line)):
            counts = dict(part.split("=") for part in (found[1] or "").split(", ") if "=" in part)
            failed = int(counts.get("failures", 0)) + int(counts.get("errors", 0))
            self.failed += failed
            self.passed += self._ran - failed - int(counts.get("skipped", 0))
            self._ran = 0
        elif found := OWN.match(line):
            self.passed += int(found[1])
            self.failed += int(found[2])
            # Skips that no line tells are counted all the same; one line may tell several.
            if not self.skips:
                self.skips += ["without a reason"] * int(found[3] or 0)
        elif found := IGNORED.match(line):
            self.skips.append(f"{found[1]}: {found[2] or 'ignored without a reason'}")
        elif found := SKIP.match(line):
            self.skips.append(found["reason"])

    def text(self):
        shown = (line for line in self.lines if not (self.task.is_quiet and QUIET_LINE.match(line)))
        verdict = "ok" if self.is_ok else f"failed (exit status {self.status})"
        title = f"{self.task.name}: {' '.join(map(str, self.task.command))}"
        return "\n".join(
            [f"\n== {title}", *shown, f"== {self.task.name}: {verdict} ({self.seconds:.0f} s)"]
        )


def can_isolate():
    """Whether this machine gives a task namespaces of its own."""
    if os.geteuid() != 0:
        return False
    pathlib.Path("/run/netns").mkdir(exist_ok=True)
    done = subprocess.run(isolated(["true"]), capture_output=True, check=False)
    return done.returncode == 0


def isolated(command):
    return ["unshare", "--net", "--mount", "sh", "-c", ISOLATED, str(RESOLVER), *map(str, command)]


class Runner:
    """Runs tasks, also several at a time from several threads; `stop` ends all of them."""

    def __init__(self, environment):
        self._environment = environment
        self._children, self._lock, self._is_stopped = set(), threading.Lock(), False
        self._isolates = can_isolate()

    def run(self, task):
        """Runs a task and returns its outcome."""
        began, outcome = time.monotonic(), Outcome(task)
        is_isolated = self._isolates and task.is_isolated and not task.is_cargo
        command = isolated(task.command) if is_isolated else task.command
        child = self._start(command, task)
        if child is None:
            outcome.status = 130
            return outcome
        limit = threading.Timer(task.limit_s, kill, [child])
        limit.start()
        with child.stdout:
            for line in child.stdout:
                outcome.read(line.rstrip("\n"))
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        limit.cancel()
        with self._lock:
            self._children.discard(child)
        outcome.status = child.returncode
        outcome.seconds = time.monotonic() - began
        outcome.processor_seconds = usage.ru_utime + usage.ru_stime
        if outcome.seconds >= task.limit_s:
            outcome.lines.append(f"not done after {task.limit_s} s, and ended")
        if outcome.status != 0:
            outcome.failed = max(outcome.failed, 1)
        elif outcome.passed == 0 and not outcome.skips:
            outcome.passed = 1
        return outcome

    def _start(self, command, task):
        with self._lock:
            if self._is_stopped:
                return None
            child = subprocess.Popen(
                list(map(str, command)),
                cwd=task.folder,
                env=self._environment | task.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._children.add(child)
        if task.is_cargo:
            lower_priority(child.pid)
        return child

    def stop(self):
        with self._lock:
            self._is_stopped = True
            children = list(self._children)
        for child in children:
            kill(child, signal.SIGTERM)


def kill(child, number=signal.SIGKILL):
    """Ends a child and what it started in its session."""
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        pass


def lower_priority(pid):
    """Lets others go first. Where the kernel groups processes by session, the group has a priority of
    its own."""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, 19)
        pathlib.Path(f"/proc/{pid}/autogroup").write_text("19")
    except OSError:
        # The priority changes how long a run takes, not what it finds.
        pass
