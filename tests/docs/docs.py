"""Runs every example of the README and the guides, and holds docs/reference/commands.md against the program."""

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
CACHE = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "interop"
COMMANDS = ROOT / "docs/reference/commands.md"
RENEW = "tests/docs/run --renew"


def nw(*words, **more):
    # Nothing of whoever runs this may show in what it prints.
    return subprocess.run([NW, *words], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, **more)


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs/guide").glob("*.md"))]


def lacks(needs):
    """What the program does not have of what an example needs."""
    if needs.startswith("["):
        return None if needs in nw("config").stdout else f"no {needs} in its configuration"
    words = needs.removeprefix("nw ").split()
    command = [word for word in words if not word.startswith("-")]
    done = nw(*command, "--help")
    missing = done.returncode != 0 or any(word not in done.stdout for word in words if word.startswith("-"))
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
        held = lambda block: block.language in blocks.RUN or {"save", "file"} & block.directives.keys()
        found = [block for block in found if held(block) and "not run:" not in block.directives]
        session, trouble = None, ""
        try:
            session = Session(ROOT, NW, CACHE)
            for block in found:
                self.one(session, block)
        except Failed as e:
            self.failed.append(f"{self.name}: {e}")
        finally:
            if session:
                trouble = session.end(keep=self.keep and bool(self.failed))
        if trouble:
            self.failed.append(f"{self.name}: {trouble}")
        if not (self.passed or self.failed or self.skipped):
            self.failed.append(f"{self.name}: no block of this page is run: show a command and its output")

    def one(self, session, block):
        needs = block.directives.get("needs")
        why = needs and lacks(needs)
        if why:
            self.skipped.append(f"{block.place}: this program has {why}")
            return
        try:
            self.check(session, block)
            self.passed += 1
        except (Failed, Mistake) as e:
            self.failed.append(f"{block.place}: {e}")

    def check(self, session, block):
        if "file" in block.directives:
            there = (ROOT / block.directives["file"]).read_text()
            if there != block.text:
                raise Failed(f"differs from {block.directives['file']}, which it should be to the letter")
        if "save" in block.directives:
            (session.place / block.directives["save"]).write_text(block.text)
        if block.language == "toml":
            path = session.place / block.directives.get("save", "example.toml")
            path.write_text(block.text)
            checker = block.directives.get("by", "nw config --check").removeprefix("nw ").split()
            done = nw(*checker, path)
            # Examples name keys, certificates and users of the reader's machine.
            elsewhere = re.compile("No such file or directory|there is no user")
            wrong = [line for line in done.stderr.splitlines() if not elsewhere.search(line)]
            if done.returncode != 0 and wrong:
                raise Failed("\n".join(wrong))
        if block.language == "console":
            for step in blocks.steps(block):
                # The README's two commands are what runs this.
                if step.command.startswith("make "):
                    continue
                try:
                    session.run(step)
                except Failed as e:
                    raise Failed(f"$ {step.command}\n  {e}") from None


def help_of(words, into):
    """Every command's help, depth first."""
    done = nw(*words, "--help", env={**os.environ, "COLUMNS": "100"})
    if done.returncode != 0:
        raise Failed(f"nw {' '.join(words)} --help: {done.stderr}")
    into.append((words, "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines())))
    listed = re.search(r"^Commands:\n(.*?)(\n\n|\Z)", done.stdout, re.M | re.S)
    for line in listed[1].splitlines() if listed else []:
        found = re.match(r"  ([a-z][a-z-]*)(  |$)", line)
        if found and found[1] != "help":
            help_of([*words, found[1]], into)


EXIT_STATUS = re.compile(r"\n\nExit status:(?:\n((?:  .*\n?)+)|.*(?:\n.*)*)")


def commands_page():
    found = []
    help_of([], found)
    page = f"# Every command\n\nMade from the program by `{RENEW}`; do not edit. The same is in the manual pages: `nw man`, `nw COMMAND --help`.\n"
    # The same below each command, so once here.
    page += "\n## Exit status\n\n| status | meaning |\n|---|---|\n"
    for line in EXIT_STATUS.search(found[0][1])[1].splitlines():
        page += "| {} | {} |\n".format(*line.split(maxsplit=1))
    for words, text in found:
        text = EXIT_STATUS.sub("", text)
        title = " ".join(["nw", *words])
        page += f"\n{'##' if len(words) < 2 else '###'} {title}\n\n```text\n{text}\n```\n"
    return page


def commands(renew):
    page = commands_page()
    if renew:
        COMMANDS.write_text(page)
    there = COMMANDS.read_text() if COMMANDS.exists() else ""
    if there != page:
        pairs = zip(there.splitlines() + [""], page.splitlines() + [""])
        number, (old, new) = next((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
        raise Failed(f"docs/reference/commands.md is out of date from line {number}; renew it with: {RENEW}\n  there:  {old}\n  wanted: {new}")


def self_test():
    """The runner finds what is wrong: pages that must fail, do."""

    def fails(text, why):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.md"
            path.write_text(text)
            page = Page(path, "page.md")
            page.run()
        if not any(why in failure for failure in page.failed):
            raise Failed(f"the runner passes over a page that is wrong ({why}): {page.failed}\n{text}")

    fails("```console\n$ echo one\ntwo\n```\n", "not printed")
    fails("```console\n$ false\n```\n", "ended with 1")
    fails("```console\n$ echo nw: no\nnw: no\n```\n", "ended with 0")
    fails("```console\n$ sleep 9 &\n```\n", "background")
    fails('```toml\n[faces]\nmaxx = 1\n```\n', "maxx")
    fails("```python\nprint()\n```\n", "nothing runs this")
    fails("<!-- docs: file Cargo.toml -->\n```toml\n```\n", "to the letter")
    fails("```fortran\n```\n", "none of")
    fails("1. A list:\n\n   ```console\n   $ echo one\n   two\n   ```\n", "not printed")
    fails("<!-- docs: by nw balancer config --check -->\n```toml\n[clusterr]\n```\n", "clusterr")
    fails("Only prose.\n", "no block of this page")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--filter", help="only pages whose path this matches", default="")
    arguments.add_argument("--complete", action="store_true", help="an example that this program is too old for is a failure")
    arguments.add_argument("--renew", action="store_true", help="write docs/reference/commands.md anew")
    options = arguments.parse_args()
    if not NW.exists():
        raise SystemExit(f"{NW} does not exist: cargo build --release -p nw-cli, or set NW_BIN")
    failed, passed, skipped = [], 0, []
    for name, check in (("docs/reference/commands.md", lambda: commands(options.renew)), ("the runner itself", self_test)):
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
        print(f"{page.name}: {page.passed} blocks passed, {len(page.failed)} failed, {len(page.skipped)} skipped", flush=True)
        passed, failed, skipped = passed + page.passed, failed + page.failed, skipped + page.skipped
    for line in skipped:
        print(f"skipped {line}")
    for line in failed:
        print(f"\nFAIL {line}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or not passed or options.complete and skipped else 0


if __name__ == "__main__":
    sys.exit(main())
