"""Builds Kubernetes, kubectl and Helm from their Go modules, once for each version, into a cache.

Nothing but Go modules is downloaded, and go.sum pins each of them. The programs are in
`${XDG_CACHE_HOME:-~/.cache}/namewire-tests/kubernetes/VERSION/bin`; the file `done` beside them
is written last, so a folder with it is whole. Building costs ten minutes of processor time.
"""

import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
MODULES = HERE / "modules"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
KUBERNETES = (
    "kube-apiserver",
    "kubectl",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
)


def version(module, path):
    """The version of a Go module that the go.mod of `modules/MODULE` pins, without its `v`."""
    text = (MODULES / module / "go.mod").read_text()
    return re.search(rf"^\s*(?:require )?{re.escape(path)} v(\S+)", text, re.MULTILINE)[1]


KUBERNETES_VERSION = version("kubernetes", "k8s.io/kubernetes")
HELM_VERSION = version("helm", "helm.sh/helm/v3")


def folder(name, release):
    """The folder of a release's programs."""
    return CACHE / "namewire-tests" / name / release / "bin"


def kubernetes():
    """The folder of Kubernetes' programs, or None if they were not built."""
    path = folder("kubernetes", KUBERNETES_VERSION)
    return path if (path / "done").exists() else None


def helm():
    """The program Helm: the one built here, or one of version 3 on the path; None without."""
    path = folder("helm", HELM_VERSION)
    if (path / "done").exists():
        return path / "helm"
    return shutil.which("helm")


def build(say=print, seconds=None):
    """Builds what is missing, and returns whether all is built within the given time. What was
    compiled until then is kept by Go. One process builds at a time; a second one waits for it."""
    deadline = None if seconds is None else time.monotonic() + seconds
    if shutil.which("go") is None:
        sys.exit("tests/kubernetes needs Go to build the cluster: install Go 1.24 or later.")
    major, minor = KUBERNETES_VERSION.split(".")[:2]
    stamp = "k8s.io/component-base/version."
    flags = (
        f"-s -w -X {stamp}gitVersion=v{KUBERNETES_VERSION} -X {stamp}gitMajor={major} "
        f"-X {stamp}gitMinor={minor} "
        f"-X k8s.io/client-go/pkg/version.gitVersion=v{KUBERNETES_VERSION}"
    )
    targets = [(name, f"k8s.io/kubernetes/cmd/{name}") for name in KUBERNETES]
    if not _build("kubernetes", KUBERNETES_VERSION, targets, flags, say, deadline):
        return False
    # The version for which Helm renders without a cluster.
    package = "helm.sh/helm/v3/pkg"
    flags = "-s -w " + " ".join(
        f"-X {package}/{part}.k8sVersionMajor={major} -X {package}/{part}.k8sVersionMinor={minor}"
        for part in ("chartutil", "lint/rules")
    )
    flags += f" -X helm.sh/helm/v3/internal/version.version=v{HELM_VERSION}"
    targets = [("helm", "helm.sh/helm/v3/cmd/helm")]
    return _build("helm", HELM_VERSION, targets, flags, say, deadline)


def _build(module, release, targets, flags, say, deadline):
    target = folder(module, release)
    target.mkdir(parents=True, exist_ok=True)
    with open(target.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (target / "done").exists():
            return True
        for name, package in targets:
            if (target / name).exists():
                continue
            started = time.monotonic()
            partial = target / f".{name}.partial"
            command = ["go", "build", "-p", "2", "-trimpath", "-ldflags", flags]
            building = subprocess.Popen(
                [*command, "-o", str(partial), package],
                cwd=MODULES / module,
                env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
                start_new_session=True,
            )
            try:
                left = None if deadline is None else max(deadline - time.monotonic(), 0)
                status = building.wait(left)
            except BaseException as reason:
                # With the compilers that it has started.
                os.killpg(building.pid, signal.SIGKILL)
                building.wait()
                if isinstance(reason, subprocess.TimeoutExpired):
                    return False
                raise
            if status != 0:
                sys.exit(f"{name} {release} can't be built; the lines above say why.")
            partial.rename(target / name)
            say(f"built {name} {release} in {time.monotonic() - started:.0f} s")
        (target / "done").touch()
        return True
