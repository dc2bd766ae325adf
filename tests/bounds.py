"""Bounds that claims rest on, from bounds.toml at the root of the repository, and the verdict that
`nw paper` prints.

Usage: python3 tests/bounds.py prints the table as JSON, for tests in other languages.
"""

import json
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BOUNDS = tomllib.loads((ROOT / "bounds.toml").read_text())

EXIT_STATUS = {"holds": 0, "does_not_hold": 1, "inconclusive": 9}


def keeps(value, entry, column=None):
    """Whether a value keeps an entry's limit; that of a column such as "busy", if it has one."""
    relation = "at_most" if "at_most" in entry else "at_least"
    limit = entry.get(column, entry[relation])
    return value <= limit if relation == "at_most" else value >= limit


def check(test, key, value):
    """Fails a test if a value misses a bound. If the bound has a weaker number for a machine that
    others share, that one counts, and both are printed."""
    entry = BOUNDS[key]
    limit = entry.get("at_most", entry.get("at_least"))
    text = f"{key}: {value:.3g}, {'at most' if 'at_most' in entry else 'at least'} {limit}"
    if "busy" in entry:
        text += f", on a busy machine {entry['busy']}: {entry['reason']}"
    if "busy" in entry or not keeps(value, entry):
        missed = "" if keeps(value, entry) else " (missed)"
        print(f"bound {text}{missed}", flush=True)
    test.assertTrue(keeps(value, entry, "busy"), text)


def holds(statement):
    """Whether a statement of `nw paper` holds, from its numbers."""
    measured, expected = statement["here"], statement["wanted"]
    relation = statement["relation"]
    if measured is None:  # not a finite number
        return False
    if relation == "at_most":
        return measured <= expected
    if relation == "at_least":
        return measured >= expected
    return abs(measured - expected) <= relation["within"] * abs(expected)


def check_verdict(test, completed, report):
    """Fails a test unless the exit status of `nw paper`, its statements and what it printed agree,
    and all statements hold that do not depend on the machine. Returns the verdict."""
    statements, problems = report["checks"], report["problems"]
    judged = [one for one in statements if one["on_any_machine"] or not problems]
    missed = [one for one in judged if not holds(one)]
    verdict = "does_not_hold" if missed else "inconclusive" if problems else "holds"
    test.assertEqual(report["verdict"], verdict, (missed, problems))
    test.assertEqual(completed.returncode, EXIT_STATUS[verdict], completed.stderr)
    faults = [one for one in missed if one["on_any_machine"]]
    test.assertEqual(faults, [], "on any machine")
    if not completed.stdout.startswith("{"):
        lines = completed.stdout.splitlines()
        printed = [line for line in lines if line.endswith((": holds", ": does not hold"))]
        test.assertEqual(len(printed), len(statements), completed.stdout)
        for line, one in zip(printed, statements, strict=True):
            test.assertTrue(line.startswith(one["what"]), (line, one))
            test.assertEqual(line.endswith(": holds"), holds(one), (line, one))
        for problem in problems:
            test.assertIn(problem, lines)
    return verdict


if __name__ == "__main__":
    print(json.dumps(BOUNDS))
