#!/usr/bin/env python3
"""The tests that docs/features.md and docs/parity.md name, and whether a run has passed them.

    tests/evidence.py              every row with its tests
    tests/evidence.py WORD...      rows with one of these words, and the commands of their tests

A test is named as docs/features.md explains: `CRATE::TEST` or `SUITE:NAME`, and `(long)` behind the
name if the second tier of the checks runs it. `xtask/tests/all/parity.rs` checks that each named test
exists. tools/check gives the lines of each step to an `Output`, and the verdicts of all steps to
`missing`.
"""

import pathlib
import re
import shlex
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = ("docs/features.md", "docs/parity.md")
# Suites whose tests are methods of unittest, named FILE.CLASS.METHOD.
UNITTEST = ("cli", "image", "kubernetes", "net", "network", "overload", "package", "pubsub", "vm")
# Every element case is run by this one test.
CASES = "unit:every_case_passes"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Test:
    """A test named as evidence: `suite` is `unit`, `case` or a folder of tests/."""

    suite: str
    name: str
    crate: str = ""
    is_long: bool = False

    def __str__(self):
        return f"{self.crate}::{self.name}" if self.crate else f"{self.suite}:{self.name}"

    @property
    def result_name(self):
        """The name under which `Output` returns the verdict of this test."""
        return CASES if self.suite == "case" else f"{self.suite}:{self.name}"

    def command(self):
        """The command that runs this test alone, or the smallest one that includes it."""
        name, suite = shlex.quote(self.name), self.suite
        pattern = shlex.quote(re.escape(self.name).replace("\\ ", " "))
        if suite == "unit":
            return f"cargo test -p {self.crate} {name}"
        if suite == "case":
            return f"NW_CASE={name} cargo test -p nw-elements every_case_passes"
        if suite == "vm" and "." not in self.name:
            return f"tests/vm/run {name}"
        if suite in (*UNITTEST, "rest"):
            return f"tests/{suite}/run {name}"
        if suite == "page":
            return f"tests/page/run --only {pattern}"
        if suite == "conformance":
            return f"tests/conformance/run-nw --filter {shlex.quote(f'^{self.name}@')}"
        if suite in ("interop", "docs"):
            return f"tests/{suite}/run --filter {pattern}"
        return f"tests/{suite}/run"


@dataclass(frozen=True)
class Row:
    """A row of a feature table. `tests` are the named tests, `paths` other files that it names."""

    page: str
    line: int
    feature: str
    tests: tuple
    paths: tuple


def parse(word, is_long=False):
    """Returns the test that a word between back quotes names; None for anything else."""
    if found := re.fullmatch(r"([a-z][a-z0-9-]*)::(\w+)", word):
        return Test("unit", found[2], found[1], is_long)
    if found := re.fullmatch(r"([a-z]+):(\S.*)", word):
        return Test(found[1], found[2], is_long=is_long)
    return None


def rows(path):
    """Returns the rows of the feature tables of a page, given by its path below the root: of those
    whose first column is `feature`. The last column names the tests."""
    found, is_table = [], False
    for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
        if not line.startswith("|"):
            is_table = False
        elif line.startswith("| feature |"):
            is_table = True
        elif is_table and not line.startswith("|---"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            quoted = re.findall(r"`([^`]+)`( \(long\))?", cells[-1])
            parsed = [(word, parse(word, bool(mark))) for word, mark in quoted]
            tests = tuple(test for _, test in parsed if test)
            paths = tuple(word for word, test in parsed if not test)
            found.append(Row(path, number, cells[0], tests, paths))
    return found


def suite_of(command):
    """Returns the suite that a step's command runs: a folder of tests/, else `unit`."""
    found = re.search(r"(?:^|[ /])tests/([a-z]+)/", command)
    return found[1] if found else "unit"


class Output:
    """Reads the lines that one step prints, without their ends."""

    UNITTEST_NAME = re.compile(r"^(\w+) \(([\w.]+)\)(.*)$")
    UNITTEST_END = re.compile(r"^(?:.* \.\.\. )?(ok|FAIL|ERROR|skipped '.*|skipped \".*)$")
    # Patterns with the groups `verdict` and `name`, by suite.
    PATTERNS = {
        "page": [
            r"(?P<verdict>ok|FAILED) (?P<name>\w+)\b",
            r"(?P<verdict>skipped): (?P<name>\w+):",
        ],
        "conformance": [
            r"(?P<verdict>passed|failed|skipped) +(?P<name>[^ @]+)@",
            r"(?P<verdict>FAIL) (?P<name>[^ @]+)@",
        ],
        "interop": [r"(?P<verdict>ok|FAIL|skipped) +(?P<name>.+?) \([\d.]+ s\)"],
        "hostile": [
            r"(?P<verdict>ok|FAILED) +(?P<name>.+? over \w+)[,:]",
            r"(?P<verdict>ok|FAILED) +(?P<name>[^:]+):",
        ],
        "rest": [r"rest: (?P<name>\w+): (?P<verdict>follows|FAILED|NOT RUN)"],
        "docs": [
            r"(?P<name>\S+\.md): [1-9]\d* blocks (?P<verdict>passed), 0 failed, 0 skipped",
            r"(?P<name>\S+\.md): \d+ blocks passed, 0 failed, \d+ (?P<verdict>skipped)",
            r"(?P<name>\S+\.md): \d+ blocks passed, \d+ (?P<verdict>failed)",
        ],
        "vm": [r"trial (?P<name>[\w-]+) ended with (?P<verdict>\d+)"],
    }
    # libtest, and cargo-nextest; wherever they are run.
    RUST = [
        r"test (?P<name>[\w:]+)(?: - should panic)? \.\.\. (?P<verdict>ok|FAILED|ignored)",
        r" *(?P<verdict>PASS|FAIL|SKIP) +\[.*\] +(?:\(.*\) +)?\S+ (?P<name>[\w:]+)$",
    ]
    # What tests in Rust print that return early; libtest counts them as passed.
    RUST_SKIPPED = re.compile(r"(?i:skipped): (?:[\w:]+::)?(\w+): ")
    VERDICTS = {
        PASSED: ("ok", "passed", "PASS", "follows", "0"),
        SKIPPED: ("skipped", "ignored", "SKIP", "NOT RUN"),
    }

    def __init__(self, suite):
        self.suite, self._open, self._skipped = suite, None, set()
        self._patterns = [re.compile(pattern) for pattern in self.PATTERNS.get(suite, [])]
        self._rust = [re.compile(pattern) for pattern in self.RUST]

    def read(self, line):
        """Returns the name of a test and its verdict if the line ends one, else None. The name is
        `SUITE:NAME`, for tests in Rust `unit:` and the name of the function."""
        if self.suite in UNITTEST and (result := self._read_unittest(line)):
            return result
        if found := self.RUST_SKIPPED.match(line):
            self._skipped.add(found[1])
        for pattern in self._rust:
            if found := pattern.match(line):
                name = found["name"].rpartition(":")[2]
                is_skipped = name in self._skipped
                return f"unit:{name}", SKIPPED if is_skipped else self._verdict(found["verdict"])
        for pattern in self._patterns:
            if found := pattern.match(line):
                return f"{self.suite}:{found['name']}", self._verdict(found["verdict"])
        return None

    def _read_unittest(self, line):
        # A test that prints something, or has a docstring, ends on a later line.
        if found := self.UNITTEST_NAME.match(line):
            method, owner, line = found.groups()
            is_class = owner.endswith(f".{method}") or not method.startswith("test")
            self._open = f"{self.suite}:{owner if is_class else f'{owner}.{method}'}"
        elif line.startswith(("=====", "-----")):
            self._open = None
        if self._open and (ended := self.UNITTEST_END.match(line)):
            name, self._open = self._open, None
            return name, self._verdict(ended[1].split()[0])
        return None

    def _verdict(self, word):
        return next((verdict for verdict, words in self.VERDICTS.items() if word in words), FAILED)


def add(results, result):
    """Adds what `Output.read` returned to the verdicts of a run. Of several verdicts of one test,
    as by several transports or after a repetition, `passed` stays."""
    if result and results.get(result[0]) != PASSED:
        results[result[0]] = result[1]


def verdict_of(test, results):
    """Returns the verdict of a named test, also if its whole class or file was skipped; None if it
    did not run."""
    name = test.result_name
    while name:
        if name in results:
            return results[name]
        name = name.rpartition(".")[0] if test.suite in UNITTEST else ""
    return None


def missing(all_rows, results, suites=None):
    """Returns (row, test, why) for each named test that has not passed, where why is `failed`,
    `skipped` or `did not run`. `results` maps names to verdicts. Tests of the second tier are
    missing only if they failed. With `suites`, tests of other suites are left out."""
    found = []
    for row in all_rows:
        for test in row.tests:
            verdict = verdict_of(test, results)
            is_asked = suites is None or test.result_name.split(":")[0] in suites
            if is_asked and verdict != PASSED and not (test.is_long and verdict != FAILED):
                found.append((row, test, verdict or "did not run"))
    return found


def main(words):
    for row in [row for page in PAGES for row in rows(page)]:
        if words and not any(word.lower() in row.feature.lower() for word in words):
            continue
        print(f"{row.page}:{row.line}: {row.feature}")
        for test in row.tests:
            print(f"    {test.command() if words else test}{' (long)' if test.is_long else ''}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:
        sys.exit(1)
