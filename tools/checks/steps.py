"""Which checks there are: the steps of the first tier, and the parts of the second.

A step is a list of tasks. Tasks of real processes wait most of the time, so several run at once,
each in a network and a mount namespace of its own; those that measure a rate run alone. A part of
the second tier is a step that takes up to eight minutes; each run of all checks has one of them.
"""

import json
import os
import subprocess

from . import PROFILE, ROOT, TARGET
from .tasks import Task

# Compiled alike for programs and tests, so that each crate is compiled once.
CARGO = ["--profile", PROFILE, "--locked", "--quiet"]
PROGRAMS = ["cargo", "build", "--workspace", "--bins", *CARGO]
# With the examples as they are, which those of the documents run.
TESTS = ["cargo", "test", "--workspace", "--no-run", *CARGO]
OPERATOR = "--features nw-cli/kubernetes"
NW, NW_BENCH = TARGET / PROFILE / "nw", TARGET / PROFILE / "nw-bench"

# Crates whose tests use sockets, namespaces or processes: like the tests of programs, these are
# repeated if they fail.
PROCESS_CRATES = {
    "nw-agent",
    "nw-balancer",
    "nw-experiments",
    "nw-faces",
    "nw-kernel",
    "nw-manager",
    "nw-pubsub-node",
    "nw-rest-api",
    "nw-router",
    "nw-service",
    "nw-testbed",
}

# What is fetched from registries, while programs are compiled. The steps behind each say so
# themselves if it could not be had.
PREPARATIONS = {
    "interop": ["tests/interop/install"],
    "cli": ["tests/venv", "tosca", "tests/cli/validators.txt"],
    "rest": ["tests/rest/run", "--install"],
    "page": ["tests/page/run", "--install"],
    "kubernetes": ["tests/kubernetes/run", "--install"],
}
# Steps that use what another one installs.
USES = {"docs": ["interop"], "net": ["interop"], "pubsub": ["interop"], "overload": ["interop"]}


def files(step, alone=(), left_out=()):
    """A task for each test file of a folder. `alone`: files that measure; `left_out`: files of the
    second tier."""
    names = sorted(path.stem for path in (ROOT / "tests" / step).glob("test_*.py"))
    return [
        Task(step, f"{step}/{name}", [f"tests/{step}/run", name], is_alone=name in alone)
        for name in names
        if name not in left_out
    ]


def one(step, command, **more):
    """A step of one task."""
    return [Task(step, step, command.split(), **more)]


def cargo(step, command, **more):
    return one(step, command, is_cargo=True, is_repeatable=False, **more)


# The steps of the first tier, in the order of the table.
STEPS = {
    "format": lambda: cargo("format", "cargo fmt --all --check"),
    "clippy": lambda: cargo(
        "clippy",
        f"cargo clippy --workspace --all-targets {' '.join(CARGO)} -- -D warnings",
    ),
    # Known when the tests are compiled: `compiled_tasks`.
    "unit": lambda: [],
    "vlan": lambda: [],
    "doctests": lambda: cargo("doctests", f"cargo test --workspace --doc {' '.join(CARGO)}"),
    "rustdoc": lambda: cargo(
        "rustdoc",
        f"cargo doc --workspace --no-deps {' '.join(CARGO)}",
        environment={"RUSTDOCFLAGS": "-D warnings"},
    ),
    "rules": lambda: one(
        "rules",
        "python3 -m unittest -v tools/checks/test_checks.py tests/test_evidence.py",
        is_repeatable=False,
    ),
    "instructions": lambda: one("instructions", "tests/instructions/run"),
    "cli": lambda: files("cli", alone=["test_bench", "test_shortages"]),
    "network": lambda: files(
        "network", alone=["test_defence", "test_load", "test_scale"], left_out=["test_paper"]
    ),
    "package": lambda: files("package"),
    "rest": lambda: one("rest", "tests/rest/run"),
    "page": lambda: [
        *one("page", "tests/page/run --without-frames"),
        Task(
            "page",
            "page/frames",
            ["tests/page/run", "--only", "frames_per_second"],
            is_alone=True,
        ),
    ],
    "conformance": lambda: one("conformance", "tests/conformance/run-nw -v"),
    "conformance-shards": lambda: one(
        "conformance-shards",
        "tests/conformance/run-nw -v --expect tests/conformance/expect/nw-shards.txt",
        environment={"NW_SHARDS": "3"},
    ),
    "interop": lambda: one("interop", "tests/interop/run"),
    "image": lambda: files("image", left_out=["test_instances"]),
    "kubernetes": lambda: one("kubernetes", "tests/kubernetes/run test_chart"),
    "net": lambda: [
        *files(
            "net",
            alone=["test_cluster", "test_xdp_shards", "test_reliability"],
            left_out=["test_paper", "test_bench_xdp"],
        ),
        Task("net", "net/test_paper", ["tests/net/run", *PAPER_SHORT]),
    ],
    "pubsub": lambda: files("pubsub", alone=["test_local"], left_out=["test_paper"]),
    "hostile": lambda: one("hostile", "tests/hostile/run --short", is_alone=True),
    "overload": lambda: files(
        "overload", alone=["test_attack", "test_bulk", "test_chain", "test_others"]
    ),
    "docs": lambda: one("docs", "tests/docs/run --complete"),
    "develop": lambda: cargo("develop", "tests/develop/run --short"),
}
QUICK = ["format", "rules", "clippy", "unit"]
# Steps that need no program.
# Steps that need the compiled tests.
WITH_TESTS = {"unit", "vlan", "docs", "image"}
WITHOUT_PROGRAM = {"format", "rules", "unit", "clippy", "doctests", "rustdoc", "develop"}

# What the second tier has whole.
PAPER_SHORT = [
    f"test_paper.Paper.test_{name}"
    for name in (
        "ctrl_c_leaves_nothing",
        "ordinary_user_is_refused_with_advice",
        "unknown_figures_are_refused",
    )
]
# The parts of the second tier: name, and commands that run one after the other.
PARTS = {
    "attacks": ["tests/hostile/run"],
    "paper-csr": ["tests/net/run test_paper"],
    "papers": ["tests/network/run test_paper", "tests/pubsub/run test_paper"],
    "rates": ["tests/net/run test_bench_xdp"],
    "boundaries": [
        "env NW_NETWORK_BOUNDARIES=all tests/network/run test_crash",
        f"cargo test -p nw-experiments --lib {' '.join(CARGO)} -- --ignored",
    ],
    "properties": [
        f"env -u PROPTEST_RNG_SEED cargo test --workspace --lib --bins --tests {' '.join(CARGO)}",
        f"env NW_MODEL_PREEMPTIONS=5 cargo test -p nw-faces --lib {' '.join(CARGO)} order_model",
    ],
    "mutants": ["tests/mutants/run --install", "tests/mutants/run"],
    "dependencies": [
        "tests/dependencies/run",
        f"cargo clippy -p nw-cli -p nw-kubernetes --all-targets {OPERATOR} {' '.join(CARGO)} -- -D warnings",
        f"cargo test -p nw-kubernetes --features cluster {' '.join(CARGO)}",
    ],
    "kubernetes-router": ["tests/kubernetes/run --if-built test_router test_cluster"],
    "kubernetes-network": ["tests/kubernetes/run --if-built test_network"],
    "develop": ["tests/develop/run"],
    "fuzz-1": ["fuzz/run.sh 12 --part 1/2"],
    "fuzz-2": ["fuzz/run.sh 12 --part 2/2"],
}


def part_tasks(name):
    return [
        Task(
            f"long:{name}",
            f"long:{name}",
            command.split(),
            is_alone=True,
            is_isolated=False,
            limit_s=15 * 60,
        )
        for command in PARTS[name]
    ]


def test_programs():
    """What cargo says of each compiled test program. It compiles nothing if TESTS ran before."""
    command = [*TESTS, "--message-format", "json"]
    listed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=cargo_environment()
    )
    if listed.returncode != 0:
        return []
    messages = [json.loads(line) for line in listed.stdout.splitlines() if line.startswith("{")]
    return [
        message
        for message in messages
        if message["reason"] == "compiler-artifact"
        and message["profile"]["test"]
        and message["executable"]
    ]


def compiled_tasks(names):
    """The tasks of these steps that run compiled test programs."""
    programs = test_programs() if WITH_TESTS & set(names) else []
    by_crate = {}
    for message in programs:
        by_crate.setdefault(package_of(message), []).append(message["executable"])
    vlan = Task(
        "vlan", "vlan", ["tests/vm/vlan", *by_crate.get("nw-faces", [])], is_repeatable=False
    )
    manager = [
        path for path in by_crate.get("nw-manager", []) if os.path.basename(path).startswith("all-")
    ]
    instances = Task(
        "image",
        "image/test_instances",
        ["tests/image/run", "test_instances"],
        environment={"NW_MANAGER_TESTS": " ".join(manager)},
    )
    return [
        *([unit_task(message) for message in programs] if "unit" in names else []),
        *([vlan] if "vlan" in names else []),
        *([instances] if "image" in names else []),
    ]


def unit_task(message):
    folder = os.path.dirname(message["manifest_path"])
    crate = os.path.basename(message["executable"]).rsplit("-", 1)[0]
    package = package_of(message)
    is_library = message["target"]["kind"][0] not in ("test", "example")
    return Task(
        "unit",
        f"unit/{package}" + ("" if is_library else f"/{crate}"),
        [message["executable"]],
        folder=folder,
        environment={"CARGO_MANIFEST_DIR": folder},
        is_quiet=True,
        is_repeatable=package in PROCESS_CRATES,
        names_after="--exact",
    )


def package_of(message):
    """The name in a package id such as `path+file:///…/name#nw-name@0.1.0`, or `…/xtask#0.1.0`."""
    path, _, named = message["package_id"].rpartition("#")
    return named.split("@")[0] if "@" in named else os.path.basename(path)


def cargo_environment():
    return {"CARGO_INCREMENTAL": "0", "CARGO_TERM_COLOR": "never"} | os.environ
