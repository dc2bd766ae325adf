"""What the outcomes of a run mean: the table, repeated tests, skipped checks, and the exit status."""

import os
import re
import subprocess

import evidence

from . import ROOT

EXPECTED_SKIPS = ROOT / "tests/expected-skips.txt"
UNSTABLE = ROOT / "tests/unstable.txt"
REPEATS = 3
UNSTABLE_MAX = 2
UNSTABLE_COMMITS_MAX = 30


def repeat(schedule):
    """Runs failed tests of real processes three more times, alone. Returns the names of those that
    passed each time: they are unstable. Nothing is repeated if more tests failed than may be
    unstable."""
    failed = [outcome for outcome in schedule.outcomes if not outcome.is_ok]
    repeatable = all(outcome.task.is_repeatable and outcome.names_are_known() for outcome in failed)
    names = [(outcome, name) for outcome in failed for name in sorted(set(outcome.failures))]
    if not names or not repeatable or len(names) > UNSTABLE_MAX:
        return []
    for outcome, name in names:
        task = outcome.task.only([name])
        for attempt in range(1, REPEATS + 1):
            again = schedule.runner.run(task)
            print(again.text(), flush=True)
            for result in again.results.items():
                evidence.add(outcome.results, result)
            # A name that chooses no test passes nothing.
            if not again.is_ok or again.passed == 0:
                print(f"{name} failed once more, alone, in run {attempt} of {REPEATS}")
                return []
    for outcome, name in names:
        outcome.status, outcome.passed, outcome.failed = 0, outcome.passed + outcome.failed, 0
    return [name for _, name in names]


def expected_skips():
    """The patterns of tests/expected-skips.txt, one a line; `#` begins a comment."""
    lines = EXPECTED_SKIPS.read_text().splitlines()
    return [re.compile(line) for line in map(str.strip, lines) if line and not line.startswith("#")]


def commits_since(commit):
    """The number of commits since one, or None if git does not know it."""
    done = subprocess.run(
        ["git", "rev-list", "--count", f"{commit}..HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return int(done.stdout) if done.returncode == 0 else None


def faults_of_unstable_list(text, commits_since=commits_since):
    """What is wrong with tests/unstable.txt: lines without a reason, unknown or old commits."""
    faults = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        parts = re.match(r"([0-9a-f]{7,40}) (\S+): \S", line)
        age = commits_since(parts[1]) if parts else None
        if parts is None:
            faults.append(f"not `COMMIT NAME: REASON`: {line}")
        elif age is None:
            faults.append(f"git does not know the commit: {line}")
        elif age > UNSTABLE_COMMITS_MAX:
            faults.append(
                f"unstable for {age} commits, {UNSTABLE_COMMITS_MAX} are allowed; mend it: {line}"
            )
    return faults


def is_whole_history():
    """Whether git can count the commits since any other: not in a shallow clone, nor without git."""
    done = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() == "false"


def table(steps):
    """`steps`: names with their outcomes."""
    width = max(len(name) for name in steps)
    print(f"\n{'step':{width}}  passed  failed  skipped  seconds  processor seconds")
    total = [0.0] * 5
    for name, outcomes in steps.items():
        row = [
            sum(outcome.passed for outcome in outcomes),
            sum(outcome.failed for outcome in outcomes),
            sum(len(outcome.skips) for outcome in outcomes),
            sum(outcome.seconds for outcome in outcomes),
            sum(outcome.processor_seconds for outcome in outcomes),
        ]
        total = [a + b for a, b in zip(total, row, strict=True)]
        print_row(width, name, row)
    print_row(width, "all", total)
    for name, outcomes in steps.items():
        for reason in (reason for outcome in outcomes for reason in outcome.skips):
            print(f"skipped in {name}: {reason}")


def print_row(width, name, row):
    print(
        f"{name:{width}}  {row[0]:6.0f}  {row[1]:6.0f}  {row[2]:7.0f}  {row[3]:7.0f}  {row[4]:17.0f}"
    )


def missing_evidence(outcomes):
    """Tests that the feature tables name, and that did not pass in this run of all steps."""
    results = {}
    for outcome in outcomes:
        for result in outcome.results.items():
            evidence.add(results, result)
    rows = [row for page in evidence.PAGES for row in evidence.rows(page)]
    return [
        f"{row.page}:{row.line}: {test}: {why}: it is named as evidence for: {row.feature}"
        for row, test, why in evidence.missing(rows, results)
    ]


def faults(outcomes, is_whole):
    """What keeps the run from passing, beside failed tests. `is_whole`: all steps of the first tier ran."""
    found = missing_evidence(outcomes) if is_whole and os.environ.get("CI") else []
    if UNSTABLE.exists() and is_whole_history():
        found += [
            f"tests/unstable.txt: {fault}"
            for fault in faults_of_unstable_list(UNSTABLE.read_text())
        ]
    if os.environ.get("CI"):
        patterns = expected_skips()
        found += [
            f"skipped, and not listed in tests/expected-skips.txt: {outcome.task.step}: {reason}"
            for outcome in outcomes
            for reason in outcome.skips
            if not any(pattern.search(reason) for pattern in patterns)
        ]
    return found
