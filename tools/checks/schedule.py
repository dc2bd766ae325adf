"""In what order tasks run: programs are compiled first; then tests are compiled, at the lowest
priority, while tasks of real processes run and wait; tasks that measure come last, one by one."""

import pathlib
import subprocess
import threading
import time

from . import ROOT, steps
from .tasks import Runner, Task

WORKERS = 4
# Of each task in a run of all checks, so that the longest begins first.
RECORD = ROOT / "tests/seconds.txt"
UNKNOWN_S = 60


def recorded_seconds():
    if not RECORD.exists():
        return {}
    lines = (
        line.rsplit(maxsplit=1)
        for line in RECORD.read_text().splitlines()
        if not line.startswith("#")
    )
    return {name: int(seconds) for name, seconds in lines}


def record(outcomes):
    """Writes what each task took."""
    taken = {outcome.task.name: max(1, round(outcome.seconds)) for outcome in outcomes}
    lines = [
        f"{name} {seconds}"
        for name, seconds in sorted(taken.items(), key=lambda item: (-item[1], item[0]))
    ]
    head = "# Seconds of each task on two cores: the longest begins first. Renew with: tools/check --record\n"
    RECORD.write_text(head + "\n".join(lines) + "\n")


class Pool:
    """Tasks that wait for a worker, the longest first."""

    def __init__(self, seconds):
        self._seconds, self._tasks, self._is_open = seconds, [], True
        self._changed = threading.Condition()

    def add(self, tasks):
        with self._changed:
            self._tasks += tasks
            self._tasks.sort(key=lambda task: self._seconds.get(task.name, UNKNOWN_S))
            self._changed.notify_all()

    def close(self):
        with self._changed:
            self._is_open = False
            self._changed.notify_all()

    def take(self):
        """Waits for a task. Returns None when there will be no more."""
        with self._changed:
            while not self._tasks and self._is_open:
                self._changed.wait()
            return self._tasks.pop() if self._tasks else None


class Schedule:
    """One run of some steps."""

    def __init__(self, names, environment, has_parts=False):
        self.outcomes, self._lock = [], threading.Lock()
        self._names, self.environment = names, environment
        self._needs_program = has_parts or not set(names) <= steps.WITHOUT_PROGRAM
        self.runner = Runner(environment)
        self._pool = Pool(recorded_seconds())
        self.tasks = [task for name in names for task in steps.STEPS[name]()]
        self.began = time.monotonic()

    def run(self):
        """Runs all steps. Returns False if the programs can't be compiled, so that nothing ran."""
        preparations = self._prepare()
        if not self._compile_programs():
            return False
        waiting = [task for task in self.tasks if not task.is_cargo and not task.is_alone]
        # The examples of the documents are compiled with the tests.
        later = [task for task in waiting if task.step == "docs"]
        release = threading.Thread(
            target=self._release, args=[waiting, later, preparations], daemon=True
        )
        release.start()
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        is_compiled = self._compile_tests()
        release.join()
        if is_compiled:
            self._pool.add(later)
            self._pool.add(steps.compiled_tasks(self._names))
        self._pool.close()
        for task in self.tasks:
            if task.is_cargo:
                self.do(task)
        for worker in workers:
            worker.join()
        for task in self.tasks:
            if task.is_alone:
                self.do(task)
        return True

    def _release(self, tasks, later, preparations):
        """Gives tasks to the pool as soon as what they use is installed."""
        tasks = [task for task in tasks if task not in later]
        for uses in sorted({used_by(task) for task in tasks}, key=len):
            for name in uses:
                preparations[name].join()
            self._pool.add([task for task in tasks if used_by(task) == uses])

    def do(self, task):
        """Runs a task, prints its output and keeps its outcome."""
        outcome = self.runner.run(task)
        with self._lock:
            self.outcomes.append(outcome)
            print(outcome.text(), flush=True)
        return outcome

    def note(self, text):
        with self._lock:
            print(f"[{time.monotonic() - self.began:5.0f} s] {text}", flush=True)

    def stop(self):
        self._pool.close()
        self.runner.stop()

    def _work(self):
        while task := self._pool.take():
            self.do(task)

    def _prepare(self):
        """Begins to install what tests of other projects' software use. Returns a thread for each."""
        wanted = {use for task in self.tasks for use in used_by(task)}
        threads = {
            name: threading.Thread(target=self._install, args=[name], daemon=True)
            for name in wanted
        }
        for thread in threads.values():
            thread.start()
        return threads

    def _install(self, name):
        """Installs one of them. A failure is told here, and the step that uses it fails or skips."""
        command = steps.PREPARATIONS[name]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        self.note(f"{' '.join(command)}: {'installed' if done.returncode == 0 else last[0]}")

    def _compile_programs(self):
        first = [task for task in self.tasks if task.step == "format"]
        for task in first:
            self.do(task)
        self.tasks = [task for task in self.tasks if task not in first]
        if not self._needs_program or self._has_program():
            return True
        return self.do(
            Task("programs", "programs", steps.PROGRAMS, is_isolated=False, is_repeatable=False)
        ).is_ok

    def _has_program(self):
        """Whether the caller has chosen a program."""
        return self.environment["NW_BIN"] != str(steps.NW)

    def _compile_tests(self):
        if not steps.WITH_TESTS & set(self._names):
            return False
        return self.do(
            Task("tests", "tests", steps.TESTS, is_cargo=True, is_repeatable=False)
        ).is_ok


def used_by(task):
    """The preparations that a task waits for."""
    own = [task.step] if task.step in steps.PREPARATIONS else []
    return (*own, *steps.USES.get(task.step, []))


def environment_of_run(caller):
    """The variables of all tasks; what the caller has set stays."""
    environment = (
        steps.cargo_environment()
        | caller
        | {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    )
    environment.setdefault("NW_BIN", str(steps.NW))
    environment.setdefault("NW_BENCH", str(steps.NW_BENCH))
    environment.setdefault("NW_EXAMPLES", str(pathlib.Path(steps.NW).parent / "examples"))
    # Most tests wait, so more of them than there are processors.
    environment.setdefault("RUST_TEST_THREADS", "6")
    # The verdict is about the commit: `cargo test` draws new cases each time, this doesn't.
    environment.setdefault("PROPTEST_RNG_SEED", "1")
    return environment
