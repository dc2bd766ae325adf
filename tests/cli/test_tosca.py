"""TOSCA packages of the example networks, read by OpenStack's tosca-parser."""

import os
import subprocess
import sys
import unittest
import zipfile
from pathlib import Path

from command_line import NW, CommandLine

NETWORKS = Path(__file__).resolve().parents[2] / "examples/networks"
PARSE = """
import sys
from toscaparser.tosca_template import ToscaTemplate
for path in sys.argv[1:]:
    ToscaTemplate(path)
"""


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

    def test_packages_are_accepted_by_tosca_parser(self):
        environment = Path(self.folder) / "venv"
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        python = environment / "bin/python"
        install = [python, "-m", "pip", "install", "--quiet", "tosca-parser==2.15.0"]
        if subprocess.run(install, check=False, capture_output=True).returncode != 0:
            self.skipTest("tosca-parser can't be installed")
        for document in sorted(NETWORKS.glob("*.graph")):
            package = self.export(document)
            folder = Path(self.folder) / document.stem
            with zipfile.ZipFile(package) as archive:
                archive.extractall(folder)
            functions = sorted(folder.glob("Definitions/vnf_*.yaml"))
            self.assertTrue(functions)
            command = [python, "-c", PARSE, package, *functions]
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, env=os.environ
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            # The parser sees a fault in each kind of file.
            for path, old, new in [
                (functions[0], "tosca.nodes.nfv.VduCp", "tosca.nodes.nfv.None"),
                (functions[0], "container_format", "container_formatt"),
                (folder / f"Definitions/{document.stem}.yaml", "nfv.Sap", "nfv.None"),
            ]:
                good = path.read_text()
                self.assertIn(old, good)
                path.write_text(good.replace(old, new))
                command = [python, "-c", PARSE, path]
                done = subprocess.run(command, check=False, capture_output=True)
                self.assertNotEqual(done.returncode, 0, f"{path}: {new}")
                path.write_text(good)


if __name__ == "__main__":
    unittest.main()
