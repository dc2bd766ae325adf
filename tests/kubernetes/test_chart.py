"""The Helm chart without a cluster: lint, what it renders, schemas, refusals, documentation."""

import base64
import json
import os
import pathlib
import re
import subprocess
import tempfile
import tomllib
import unittest

import kubernetes_cluster
import kubernetes_validate
import programs
import yaml

HERE = pathlib.Path(__file__).resolve().parent
CHART = HERE.parents[1] / "deploy/helm/namewire"
GOLDEN = HERE / "golden"
PROGRAM = HERE.parents[1] / "crates/kubernetes/tests/golden"
SETS = sorted(path.name.removesuffix(".values.yaml") for path in GOLDEN.glob("*.values.yaml"))
# The oldest and the newest version that the chart is for and the schemas are known of.
VERSIONS = ("1.29", "1.34")


def helm(*arguments):
    with tempfile.TemporaryDirectory(prefix="nw-helm-") as home:
        return subprocess.run(
            [programs.helm(), *map(str, arguments)],
            check=False,
            capture_output=True,
            text=True,
            env=os.environ | {"HOME": home, "KUBECONFIG": f"{home}/none"},
        )


def template(values, *more):
    return helm("template", "site", CHART, "--namespace", "ndn", "--values", values, *more)


class Helm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if programs.helm() is None:
            kubernetes_cluster.need(
                "Helm is not built here: run tests/kubernetes/cluster build, or set "
                "NW_KUBERNETES=build"
            )

    def test_lint_strict_finds_nothing(self):
        for name in SETS:
            values = GOLDEN / f"{name}.values.yaml"
            done = helm("lint", CHART, "--strict", "--values", values)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_template_renders_golden_output(self):
        for name in SETS:
            done = template(GOLDEN / f"{name}.values.yaml")
            self.assertEqual(done.returncode, 0, done.stderr)
            golden = GOLDEN / f"{name}.yaml"
            if os.environ.get("RENEW"):
                golden.write_text(done.stdout)
            self.assertEqual(done.stdout, golden.read_text(), f"{golden}: RENEW=1 writes it again")

    def test_template_missing_value_is_refused_with_its_name(self):
        complete = GOLDEN / "complete.values.yaml"
        for setting, words in [
            ("cluster.address=", "cluster.address: give the address of the node"),
            ("cluster.members=91", "cluster.members: at most 90"),
            ("cluster.elastic.min=5", "cluster.elastic.min: at most cluster.elastic.max"),
            ("cluster.elastic.max=64", "cluster.elastic.max: at most 63"),
            ("manager.document=", "manager.document: give the graph file"),
            ("manager.page.tlsSecret=", "manager.page.tlsSecret: give a secret of type"),
            ("manager.page.tokenSecret=", "manager.page.tokenSecret: give a secret with"),
        ]:
            done = template(complete, "--set", setting)
            self.assertNotEqual(done.returncode, 0, setting)
            self.assertIn(words, done.stderr)

    def test_template_makes_a_group_token_of_its_own_without_a_secret(self):
        tokens = set()
        for _ in range(2):
            done = template(
                GOLDEN / "complete.values.yaml",
                "--set=cluster.groupTokenSecret=",
                "--set=cluster.tokenSecret=",
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            documents = list(yaml.safe_load_all(done.stdout))
            (secret,) = [d for d in documents if d["kind"] == "Secret"]
            kubernetes_validate.validate(secret, VERSIONS[-1], strict=True)
            self.assertEqual(secret["metadata"]["name"], "site-balancer-group")
            tokens.add(base64.b64decode(secret["data"]["token"]))
            mounts = {
                d["metadata"]["name"]: secrets_of(d["spec"]["template"]["spec"])
                for d in documents
                if d["metadata"]["name"] in ("site-balancer", "site-member")
                and d["kind"] in ("Deployment", "StatefulSet")
            }
            # Without `cluster.tokenSecret` nothing accepts commands by HTTP.
            self.assertEqual(
                mounts,
                {
                    "site-balancer": {"balancer": ["site-balancer-group"]},
                    "site-member": {"agent": ["site-balancer-group"]},
                },
            )
            self.assertNotIn("allow_remote", done.stdout)
        self.assertEqual([len(token) for token in tokens], [40, 40])

    def test_template_disabled_parts_render_nothing(self):
        done = template(GOLDEN / "default.values.yaml", "--set", "router.enabled=false")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.strip(), "")


def secrets_of(spec):
    """The names of the secrets that each container of a pod mounts; those without are left out."""
    volumes = {
        volume["name"]: volume["secret"]["secretName"]
        for volume in spec["volumes"]
        if "secret" in volume
    }
    mounted = {
        container["name"]: [
            volumes[mount["name"]]
            for mount in container["volumeMounts"]
            if mount["name"] in volumes
        ]
        for container in spec.get("initContainers", []) + spec["containers"]
    }
    return {name: secrets for name, secrets in mounted.items() if secrets}


class Manifests(unittest.TestCase):
    """The golden output, so that these tests need no Helm."""

    def documents(self):
        for name in SETS:
            yield from yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text())

    def test_manifests_fit_the_schemas_of_kubernetes(self):
        for document in self.documents():
            for version in VERSIONS:
                kubernetes_validate.validate(document, version, strict=True)

    def test_schemas_refuse_a_field_that_does_not_exist(self):
        document = next(d for d in self.documents() if d["kind"] == "Deployment")
        document["spec"]["replicaz"] = 1
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(document, VERSIONS[-1], strict=True)

    def test_containers_but_the_balancer_have_no_rights(self):
        seen = 0
        for document in self.documents():
            spec = document.get("spec", {}).get("template", {}).get("spec", {})
            for container in spec.get("containers", []) + spec.get("initContainers", []):
                context = container["securityContext"]
                self.assertTrue(context["readOnlyRootFilesystem"])
                seen += 1
                if container["name"] == "balancer":
                    continue
                self.assertFalse(context["allowPrivilegeEscalation"])
                self.assertEqual(context["capabilities"]["drop"], ["ALL"])
                self.assertEqual(context["seccompProfile"], {"type": "RuntimeDefault"})
            if spec:
                # Only the operator and a balancer that counts members talk to the API server.
                has_account = "serviceAccountName" in spec
                self.assertEqual(spec["automountServiceAccountToken"], has_account)
        self.assertEqual(seen, 10)

    def test_members_have_no_token_that_allows_commands(self):
        (members,) = [
            document
            for document in yaml.safe_load_all((GOLDEN / "complete.yaml").read_text())
            if document["kind"] == "StatefulSet"
        ]
        self.assertEqual(
            secrets_of(members["spec"]["template"]["spec"]), {"agent": ["cluster-group"]}
        )
        self.assertNotIn("http://", json.dumps(members))

    def test_elastic_balancer_may_only_scale_its_members(self):
        documents = list(yaml.safe_load_all((GOLDEN / "elastic.yaml").read_text()))
        of = {document["kind"]: document for document in documents}
        self.assertEqual(
            of["Role"]["rules"],
            [
                {
                    "apiGroups": ["apps"],
                    "resources": ["statefulsets/scale"],
                    "resourceNames": ["site-member"],
                    "verbs": ["get", "patch"],
                }
            ],
        )
        account = of["Deployment"]["spec"]["template"]["spec"]["serviceAccountName"]
        subject = {"kind": "ServiceAccount", "name": account, "namespace": "ndn"}
        self.assertEqual(of["RoleBinding"]["subjects"], [subject])
        self.assertEqual(of["StatefulSet"]["metadata"]["name"], "site-member")
        # A number in the manifest would undo what the balancer has set.
        self.assertNotIn("replicas", of["StatefulSet"]["spec"])
        elastic = tomllib.loads(of["ConfigMap"]["data"]["balancer.toml"])["elastic"]
        self.assertEqual(elastic["stateful_set"], "ndn/site-member")
        self.assertEqual(elastic["capacity_per_s"], 2000000)

    def test_selectors_of_parts_differ(self):
        selectors = [
            tuple(sorted(document["spec"]["selector"]["matchLabels"].items()))
            for document in yaml.safe_load_all((GOLDEN / "complete.yaml").read_text())
            if document["kind"] in ("DaemonSet", "Deployment", "StatefulSet")
        ]
        self.assertEqual(len(selectors), 5)
        self.assertEqual(len(set(selectors)), 5)


class Operator(unittest.TestCase):
    """The chart grants the operator what `nw network kubernetes manifests` prints, and no more."""

    def test_definition_of_chart_is_that_of_the_program(self):
        chart = json.loads((CHART / "crds/networks.json").read_text())
        self.assertEqual(chart, json.loads((PROGRAM / "crd.json").read_text()))

    def test_rights_and_policy_of_chart_are_those_of_the_program(self):
        program = json.loads((PROGRAM / "manifests.json").read_text())["items"]
        chart = list(yaml.safe_load_all((GOLDEN / "complete.yaml").read_text()))
        self.assertEqual(rights(chart, "site-operator"), rights(program, "namewire-operator"))
        (policy,) = [d["spec"] for d in program if d["kind"] == "NetworkPolicy"]
        policies = [d for d in chart if d["kind"] == "NetworkPolicy"]
        self.assertEqual([p["metadata"]["namespace"] for p in policies], ["ndn", "laboratory"])
        # The namespace of the operator is another one.
        (own,) = policy["egress"][1]["to"]
        own["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] = "ndn"
        for found in policies:
            self.assertEqual(found["spec"], policy)


def rights(documents, name):
    """The rights of an account by the name of the role without the account's."""
    return {
        document["metadata"]["name"].removeprefix(name): sorted(
            (group, resource, verb)
            for rule in document["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        )
        for document in documents
        if document["kind"] == "Role"
    }


class Documentation(unittest.TestCase):
    def test_readme_lists_every_value_and_no_other(self):
        def paths(values, prefix=""):
            for key, value in values.items():
                name = f"{prefix}{key}"
                if isinstance(value, dict) and value and not name.endswith("esources"):
                    yield from paths(value, f"{name}.")
                else:
                    yield name

        values = yaml.safe_load((CHART / "values.yaml").read_text())
        text = (CHART / "README.md").read_text()
        listed = re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE)
        self.assertEqual(sorted(paths(values)), sorted(listed))


if __name__ == "__main__":
    unittest.main()
