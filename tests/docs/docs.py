"""Runs every example of the README and the guides, and compares docs/reference/commands.md with the
program."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import blocks
from blocks import Mistake
from session import Failed, Session

ROOT = Path(__file__).resolve().parents[2]
NW = Path(os.environ.get("NW_BIN") or ROOT / "target/release/nw").resolve()
CACHE = Path(os.environ["NW_DOCS_CACHE"])
COMMANDS = ROOT / "docs/reference/commands.md"
RENEW = "tests/docs/run --renew"


def nw(*args, **options):
    # The output must not depend on the user who runs this.
    return subprocess.run(
        [NW, *args], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, **options
    )


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs/guide").glob("*.md"))]


def missing_features(needs):
    """Returns what an example needs and the program lacks; None if nothing."""
    if needs.startswith("["):
        return None if needs in nw("config").stdout else f"no {needs} in its configuration"
    args = needs.removeprefix("nw ").split()
    command = [word for word in args if not word.startswith("-")]
    completed = nw(*command, "--help")
    missing = completed.returncode != 0 or any(
        word not in completed.stdout for word in args if word.startswith("-")
    )
    return f"no `{needs}`" if missing else None


class Page:
    """One page, its blocks run in order in one session."""

    def __init__(self, path, name=None):
        self.path, self.name, self.keep = path, name or str(path.relative_to(ROOT)), name is None
        self.passed, self.failed, self.skipped = 0, [], []

    def run(self):
        try:
            found = blocks.read(self.name, self.path.read_text())
        except Mistake as e:
            self.failed.append(str(e))
            return
        is_checked = lambda block: (
            block.language in blocks.RUN or {"save", "file"} & block.directives.keys()
        )
        found = [
            block for block in found if is_checked(block) and "not run:" not in block.directives
        ]
        session, faults = None, ""
        try:
            session = Session(ROOT, NW, CACHE)
            for block in found:
                self.run_block(session, block)
        except Failed as e:
            self.failed.append(f"{self.name}: {e}")
        finally:
            if session:
                faults = session.end(keep=self.keep and bool(self.failed))
        if faults:
            self.failed.append(f"{self.name}: {faults}")
        if not (self.passed or self.failed or self.skipped):
            self.failed.append(
                f"{self.name}: no block of this page is run: show a command and its output"
            )

    def run_block(self, session, block):
        needs = block.directives.get("needs")
        reason = needs and missing_features(needs)
        if reason:
            self.skipped.append(f"{block.place}: this program has {reason}")
            return
        try:
            self.check(session, block)
            self.passed += 1
        except (Failed, Mistake) as e:
            self.failed.append(f"{block.place}: {e}")

    def check(self, session, block):
        if "file" in block.directives:
            content = (ROOT / block.directives["file"]).read_text()
            if content != block.text:
                raise Failed(
                    f"differs from {block.directives['file']}, which it should be to the letter"
                )
        if "save" in block.directives:
            (session.place / block.directives["save"]).write_text(block.text)
        if block.language == "toml":
            path = session.place / block.directives.get("save", "example.toml")
            path.write_text(block.text)
            checker = block.directives.get("by", "nw config --check").removeprefix("nw ").split()
            completed = nw(*checker, path)
            # Examples name keys, certificates and users of the reader's machine.
            elsewhere = re.compile("No such file or directory|there is no user")
            wrong = [line for line in completed.stderr.splitlines() if not elsewhere.search(line)]
            if completed.returncode != 0 and wrong:
                raise Failed("\n".join(wrong))
        if block.language == "console":
            for step in blocks.steps(block):
                # The README's two commands run this test, so they are not run again.
                if step.command.startswith("make "):
                    continue
                try:
                    session.run(step)
                except Failed as e:
                    raise Failed(f"$ {step.command}\n  {e}") from None


def collect_help(args, into):
    """Collects the help of every command, depth first."""
    completed = nw(*args, "--help", env={**os.environ, "COLUMNS": "100"})
    if completed.returncode != 0:
        raise Failed(f"nw {' '.join(args)} --help: {completed.stderr}")
    into.append((args, "\n".join(line.rstrip() for line in completed.stdout.rstrip().splitlines())))
    listed = re.search(r"^Commands:\n(.*?)(\n\n|\Z)", completed.stdout, re.M | re.S)
    for line in listed[1].splitlines() if listed else []:
        found = re.match(r"  ([a-z][a-z-]*)(  |$)", line)
        if found and found[1] != "help":
            collect_help([*args, found[1]], into)


EXIT_STATUS = re.compile(r"\n\nExit status:(?:\n((?:  .*\n?)+)|.*(?:\n.*)*)")


def commands_page():
    found = []
    collect_help([], found)
    page = f"# Every command\n\nMade from the program by `{RENEW}`; do not edit. The same is in the manual pages: `nw man`, `nw COMMAND --help`.\n"
    # The text is the same for every command, so it is shown once.
    page += "\n## Exit status\n\n| status | meaning |\n|---|---|\n"
    for line in EXIT_STATUS.search(found[0][1])[1].splitlines():
        page += "| {} | {} |\n".format(*line.split(maxsplit=1))
    for args, text in found:
        text = EXIT_STATUS.sub("", text)
        title = " ".join(["nw", *args])
        page += f"\n{'##' if len(args) < 2 else '###'} {title}\n\n```text\n{text}\n```\n"
    return page


def commands(renew):
    page = commands_page()
    if renew:
        COMMANDS.write_text(page)
    current = COMMANDS.read_text() if COMMANDS.exists() else ""
    if current != page:
        pairs = zip(current.splitlines() + [""], page.splitlines() + [""])
        number, (old, new) = next(
            (n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1]
        )
        raise Failed(
            f"docs/reference/commands.md is out of date from line {number}; renew it with: {RENEW}\n  there:    {old}\n  expected: {new}"
        )


def self_test():
    """Tests the runner: pages with mistakes must fail."""

    def fails(text, reason):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.md"
            path.write_text(text)
            page = Page(path, "page.md")
            page.run()
        if not any(reason in failure for failure in page.failed):
            raise Failed(
                f"the runner accepts a page with a mistake ({reason}): {page.failed}\n{text}"
            )

    fails("```console\n$ echo one\ntwo\n```\n", "not printed")
    fails("```console\n$ false\n```\n", "ended with 1")
    fails("```console\n$ echo nw: no\nnw: no\n```\n", "ended with 0")
    fails("```console\n$ sleep 9 &\n```\n", "background")
    fails("```toml\n[faces]\nmaxx = 1\n```\n", "maxx")
    fails("```python\nprint()\n```\n", "nothing runs this")
    fails("<!-- docs: file Cargo.toml -->\n```toml\n```\n", "to the letter")
    fails("```fortran\n```\n", "none of")
    fails("1. A list:\n\n   ```console\n   $ echo one\n   two\n   ```\n", "not printed")
    fails("<!-- docs: by nw balancer config --check -->\n```toml\n[clusterr]\n```\n", "clusterr")
    fails("Only prose.\n", "no block of this page")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--filter", help="only pages whose path this matches", default="")
    arguments.add_argument(
        "--complete", action="store_true", help="an example that needs a newer program is a failure"
    )
    arguments.add_argument(
        "--renew", action="store_true", help="rewrite docs/reference/commands.md"
    )
    options = arguments.parse_args()
    if not NW.exists():
        raise SystemExit(f"{NW} does not exist: cargo build --release -p nw-cli, or set NW_BIN")
    failed, passed, skipped = [], 0, []
    for name, check in (
        ("docs/reference/commands.md", lambda: commands(options.renew)),
        ("the runner itself", self_test),
    ):
        try:
            check()
            passed += 1
        except Failed as e:
            failed.append(f"{name}: {e}")
    for path in pages():
        if not re.search(options.filter, str(path.relative_to(ROOT))):
            continue
        page = Page(path)
        page.run()
        print(
            f"{page.name}: {page.passed} blocks passed, {len(page.failed)} failed, {len(page.skipped)} skipped",
            flush=True,
        )
        passed, failed, skipped = passed + page.passed, failed + page.failed, skipped + page.skipped
    for line in skipped:
        print(f"skipped {line}")
    for line in failed:
        print(f"\nFAIL {line}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or not passed or options.complete and skipped else 0


if __name__ == "__main__":
    sys.exit(main())
