"""Certificates and kubeconfigs of the test cluster, made by openssl for one day."""

import base64
import json
import subprocess

DAYS = "1"


class Authority:
    """A certificate authority in a folder, which signs the cluster's certificates."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(mode=0o700)
        self._key("ca")
        self._key("service-account")
        public = ("-pubout", "-out", "service-account.pub")
        self._run("pkey", "-in", "service-account.key", *public)
        options = ("-new", "-x509", "-days", DAYS, "-subj", "/CN=nw-test-cluster")
        self._run("req", *options, "-key", "ca.key", "-out", "ca.crt")

    def sign(self, name, common_name, organisation=None, addresses=()):
        """Writes NAME.key and NAME.crt, valid for a client and for a server at the addresses."""
        self._key(name)
        subject = f"/O={organisation}/CN={common_name}" if organisation else f"/CN={common_name}"
        self._run("req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", f"{name}.csr")
        lines = ["extendedKeyUsage=clientAuth,serverAuth"]
        if addresses:
            lines.append("subjectAltName=" + ",".join(addresses))
        (self.folder / f"{name}.ext").write_text("\n".join(lines) + "\n")
        self._run(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-days", DAYS, "-extfile", f"{name}.ext", "-out", f"{name}.crt"),
        )

    def write_kubeconfig(self, path, server, name):
        """Writes a kubeconfig with everything in it: it works from any folder and machine."""

        def data(file):
            return base64.b64encode((self.folder / file).read_bytes()).decode()

        cluster = {"server": server, "certificate-authority-data": data("ca.crt")}
        user = {
            "client-certificate-data": data(f"{name}.crt"),
            "client-key-data": data(f"{name}.key"),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(document, indent=1))

    def _key(self, name):
        curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
        self._run("genpkey", *curve, "-out", f"{name}.key")

    def _run(self, *arguments):
        subprocess.run(("openssl", *arguments), check=True, cwd=self.folder, capture_output=True)
