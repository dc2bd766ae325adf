"""The fenced blocks of a Markdown page, and the directives in comments before them.

<!-- docs: save hello.py -->        the block is written to this file, where the page's commands
                                    find it
<!-- docs: file crates/x/y.rs -->   the block is this file of the repository, to the letter
<!-- docs: needs nw tap -->         skipped, and said so, where the program has no such command
<!-- docs: needs [rib] -->          or no such section or option in its configuration
<!-- docs: by nw balancer config --check -->   a toml block is checked by this command
<!-- docs: not run: why -->         shown only; used where running would need another machine or
                                    rights
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(r"^( *)```([a-z]*)\s*$")
COMMENT = re.compile(r"^ *<!-- docs: (.*) -->$")
DIRECTIVES = ("save", "file", "needs", "by", "not run:")
# Languages whose blocks are run or compared, and those that are only text.
RUN = ("console", "toml", "python", "js", "rust", "c")
TEXT = ("", "text", "json")


class Mistake(Exception):
    """A page with a directive or block that this runner can't check."""


@dataclass
class Block:
    page: Path
    line: int
    language: str
    lines: list
    directives: dict = field(default_factory=dict)
    indent: str = ""

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"


@dataclass
class Step:
    """One command of a console block, and the output shown for it."""

    command: str
    expected: list


def read(page, text):
    """The page's blocks, in order."""
    blocks, comment, block = [], None, None
    for number, line in enumerate(text.splitlines(), 1):
        if block is not None:
            if line.strip().startswith("```"):
                blocks.append(checked(block))
                block = None
            else:
                # The lines of a block in a list are indented like its fence.
                block.lines.append(line.removeprefix(block.indent))
        elif found := FENCE.match(line):
            block = Block(page, number, found[2], [], comment or {}, found[1])
            comment = None
        elif line.strip().startswith("```"):
            raise Mistake(f"{page}:{number}: a fence is ``` and a word")
        elif found := COMMENT.match(line):
            comment = directives(f"{page}:{number}", found[1])
        elif line.strip() and comment is not None:
            raise Mistake(f"{page}:{number}: a comment for a block, and no block after it")
    if block is not None:
        raise Mistake(f"{block.place}: a block without an end")
    return blocks


def directives(place, text):
    found = {}
    for part in text.split("; "):
        word = next((word for word in DIRECTIVES if part.startswith(word + " ")), None)
        if word is None or not part[len(word) :].strip():
            raise Mistake(f"{place}: {part!r} is none of: " + ", ".join(DIRECTIVES))
        if word in found:
            raise Mistake(f"{place}: {word} twice")
        found[word] = part[len(word) :].strip()
    return found


def checked(block):
    if block.language not in RUN + TEXT:
        raise Mistake(f"{block.place}: {block.language!r} is none of {', '.join(RUN + TEXT[1:])}")
    held = {"save", "file", "not run:"} & block.directives.keys()
    if block.language in ("python", "js", "rust", "c") and not held:
        raise Mistake(
            f"{block.place}: nothing runs this {block.language}: say save, file, or not run"
        )
    return block


def steps(block):
    """The commands of a console block: `$ command`, `> ` goes on, other lines are output."""
    found = []
    for line in block.lines:
        if line.startswith("$ "):
            found.append(Step(line[2:], []))
        elif not found:
            raise Mistake(f"{block.place}: a console block begins with $")
        elif line.startswith("> ") and not found[-1].expected:
            found[-1].command += "\n" + line[2:]
        else:
            found[-1].expected.append(line)
    return found


def pattern(line):
    """Returns a regular expression for a shown line: … or ... matches anything, spaces match any
    spaces."""
    parts = re.split(r"(…|\.\.\.|\s+)", line.rstrip())
    return re.compile(
        "".join(
            {"…": ".*", "...": ".*"}.get(part) or (r"\s+" if part.isspace() else re.escape(part))
            for part in parts
            if part
        )
    )


def missing(expected, printed):
    """Returns the first shown line that was not printed in this order; None if all were."""
    at = 0
    for line in expected:
        expected = pattern(line)
        if line.strip() in ("", "…", "..."):
            continue
        while at < len(printed) and not expected.fullmatch(printed[at].rstrip()):
            at += 1
        if at == len(printed):
            return line
        at += 1
    return None
