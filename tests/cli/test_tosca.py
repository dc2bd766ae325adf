"""TOSCA packages of the example networks, read by OpenStack's tosca-parser and by puccini."""

import subprocess
import sys
import unittest
import zipfile
from pathlib import Path

from command_line import NW, CommandLine

NETWORKS = Path(__file__).resolve().parents[2] / "examples/networks"
VALIDATORS = ("tosca-parser", "puccini")
TESTS = Path(__file__).resolve().parents[1]
INSTALL = [TESTS / "venv", "tosca", TESTS / "cli/validators.txt"]
# Prints a verdict for each VALIDATOR:PATH.
VALIDATE = """
import sys
import puccini.tosca
from toscaparser.tosca_template import ToscaTemplate
QUIRKS = ["capabilities.occurrences.permissive"]
for word in sys.argv[1:]:
    validator, path = word.split(":", 1)
    try:
        if validator == "puccini":
            puccini.tosca.compile(path, None, QUIRKS)
        else:
            ToscaTemplate(path)
        print(word, "ok")
    except puccini.tosca.Problems as problems:
        print(word, " ".join(str(problems.problems).split())[:300])
    except Exception as error:
        print(word, " ".join(str(error).split())[:300] or "refused")
"""
# A file, a text in it, and a fault in its place: both validators refuse all of them.
FAULTS = [
    ("function", "tosca.nodes.nfv.VduCp", "tosca.nodes.nfv.None"),
    ("function", "container_format", "container_formatt"),
    ("function", 'container_format: "docker"', 'container_format: "paper"'),
    ("function", "min_number_of_instances: 1", 'min_number_of_instances: "one"'),
    ("function", "virtual_binding:", "virtual_bindink:"),
    ("function", "flavour_id:", "flavor_id:"),
    ("network", "nfv.Sap", "nfv.None"),
]


def validators():
    """Returns the Python of an environment with both validators, or None if it can't be had."""
    done = subprocess.run(INSTALL, check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def relax(types):
    """Changes the requirement of connection points whose occurrences the two validators read
    differently: puccini knows no unassigned requirement as the end of a mapping."""
    text = types.read_text()
    at = text.index("  tosca.nodes.nfv.VduCp:")
    line = "          occurrences: [0, 1]\n"
    assert line in text[at:]
    types.write_text(text[:at] + text[at:].replace(line, "", 1))


class Packages(CommandLine):
    def nw(self, *command):
        command = [NW, *map(str, command)]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    def export(self, document):
        package = Path(self.folder) / f"{document.stem}.csar"
        done = self.nw("network", "export", document, "--output", package)
        self.assertEqual(done.returncode, 0, done.stderr)
        return package

    def test_documents_survive_export_and_import(self):
        for document in sorted(NETWORKS.glob("*.graph")):
            package = self.export(document)
            back = Path(self.folder) / "back.graph"
            done = self.nw("network", "import", package, "--output", back)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(back.read_text(), document.read_text())

    def test_changed_package_is_refused_with_its_place(self):
        package = self.export(NETWORKS / "chain.graph")
        changed = Path(self.folder) / "changed.csar"
        with zipfile.ZipFile(package) as old, zipfile.ZipFile(changed, "w") as new:
            for name in old.namelist():
                text = old.read(name).decode()
                if name == "Definitions/vnf_br.yaml":
                    text = text.replace("max_number_of_instances: 3", "max_number_of_instances: 9")
                new.writestr(name, text)
        done = self.nw("network", "import", changed, "--output", Path(self.folder) / "x")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"Definitions/vnf_br.yaml:\d+: .*instances: 9")

    def test_packages_are_accepted_by_two_validators_and_faults_are_refused(self):
        python = validators()
        if python is None:
            self.skipTest("tosca-parser and puccini can't be installed")
        for document in sorted(NETWORKS.glob("*.graph")):
            package = self.export(document)
            folders = {}
            for validator in VALIDATORS:
                folder = folders[validator] = Path(self.folder) / f"{document.stem}-{validator}"
                with zipfile.ZipFile(package) as archive:
                    archive.extractall(folder)
            relax(folders["puccini"] / "Definitions/nfv_types.yaml")
            wanted = [(validator, package, True) for validator in VALIDATORS]
            for validator, folder in folders.items():
                functions = sorted(folder.glob("Definitions/vnf_*.yaml"))
                self.assertTrue(functions)
                wanted += [(validator, path, True) for path in functions]
                network = folder / f"Definitions/{document.stem}.yaml"
                # Each fault in a copy beside its file, so that imports are found.
                for number, (name, old, new) in enumerate(FAULTS):
                    path = network if name == "network" else functions[0]
                    good = path.read_text()
                    self.assertIn(old, good)
                    bad = path.with_name(f"fault{number}.yaml")
                    bad.write_text(good.replace(old, new, 1))
                    wanted.append((validator, bad, False))
            words = [f"{validator}:{path}" for validator, path, _ in wanted]
            done = subprocess.run(
                [python, "-c", VALIDATE, *words], check=False, capture_output=True, text=True
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            verdicts = dict(line.split(" ", 1) for line in done.stdout.splitlines())
            for (_, _, is_good), word in zip(wanted, words):
                self.assertEqual(verdicts[word] == "ok", is_good, f"{word}: {verdicts[word]}")


if __name__ == "__main__":
    unittest.main()
