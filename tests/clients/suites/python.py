"""The test suites that three Python clients of etcd bring with them, run by pytest as they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from kit import packages
from kit.nodes import Cluster, Server
from kit.report import FAILED, PASSED, SKIPPED, Case

TEST_S = 90
"""A single test takes 31 s at most against etcd."""


def etcd3_tools() -> Path:
    packages.sdist("etcd3==0.12.0")
    packages.etcd_3_4("etcdctl")
    return packages.venv(
        "etcd3", "etcd3==0.12.0", "protobuf<3.21", "hypothesis==5.30.0", "tenacity==6.3.1",
        "mock", "six", "pytest", "pytest-timeout",
    )


def etcd3(server: Server, folder: Path) -> list[Case]:
    """It stops the nodes whose command line says `--name pifpaf1` or 2 to see a lost quorum."""
    shutil.copytree(packages.sdist("etcd3==0.12.0") / "tests", folder / "tests")
    names = ["pifpaf0", "pifpaf1", "pifpaf2"]
    with Cluster(server, folder / "nodes", names, first_port=2379) as cluster:
        environment = {
            "TEST_ETCD_VERSION": "v3.4.0",
            "PYTHON_ETCD_HTTP_URL": f"http://{cluster.nodes[0].client}",
        }
        return pytest(etcd3_tools(), folder, environment, "tests")


def gateway_tools() -> Path:
    return packages.venv(
        "gateway", "etcd3gw==2.7.0", "tooz==9.1.0", "ddt", "fixtures", "oslotest", "pymemcache",
        "pytest", "pytest-timeout", "redis", "sysv-ipc", "testtools",
    )


def etcd3gw(server: Server, folder: Path) -> list[Case]:
    with Cluster(server, folder / "nodes", ["alone"]) as cluster:
        port = cluster.nodes[0].client.rpartition(":")[2]
        environment = {
            "TOOZ_TEST_HTTP_URL": f"http://localhost:{port}",
            "TOOZ_TEST_ETCD_PORT": port,
        }
        return pytest(gateway_tools(), folder, environment, "--pyargs", "etcd3gw")


def tooz(server: Server, folder: Path) -> list[Case]:
    """Leader election, locks and groups by way of etcd3gw."""
    with Cluster(server, folder / "nodes", ["alone"]) as cluster:
        environment = {"TOOZ_TEST_URL": f"etcd3+http://{cluster.nodes[0].client}"}
        suite = "tooz.tests.test_coordination"
        return pytest(gateway_tools(), folder, environment, "--pyargs", suite)


def pytest(python: Path, folder: Path, environment: dict[str, str], *what: str) -> list[Case]:
    report = folder / "report.xml"
    command = [
        str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--timeout={TEST_S}",
        f"--junitxml={report}", *what,
    ]
    subprocess.run(command, cwd=folder, env={**os.environ, **environment}, check=False)
    return [verdict(test) for test in ElementTree.parse(report).iter("testcase")]


def verdict(test: ElementTree.Element) -> Case:
    """The answer to one test of a JUnit report."""
    name = f"{test.get('classname', '').rpartition('.')[2]}::{test.get('name')}"
    for tag, kind in (("failure", FAILED), ("error", FAILED), ("skipped", SKIPPED)):
        if (found := test.find(tag)) is not None:
            return Case(name, kind, f"{found.text or ''}\n{found.get('message') or ''}")
    return Case(name, PASSED)
