"""etcdctl 3.4.23 and 3.5.1, nearly every command and flag, against a server and beside it the
etcd of the same version: the two transcripts have to be equal.

Against etcd the other side is a second etcd: that shows that the comparison itself holds.
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kit import packages
from kit.nodes import Cluster, Server
from kit.report import FAILED, PASSED, Case
from kit.transcript import THREE, Player

from . import etcdctl_cluster, etcdctl_keys, etcdctl_load

CASES = {**etcdctl_keys.CASES, **etcdctl_cluster.CASES}
CHECKS = etcdctl_load.CASES
NAMES = ["n0", "n1", "n2"]
BROKE_OFF = "  the case broke off:"
FLAGS = ("--experimental-watch-progress-notify-interval", "1s")


def tools_3_4() -> tuple[str, str]:
    return packages.etcd_3_4("etcdctl"), packages.etcd_3_4("etcd")


def tools_3_5() -> tuple[str, str]:
    return packages.distro("etcdctl"), packages.distro("etcd")


def play_3_4(server: Server, folder: Path) -> list[Case]:
    return beside(tools_3_4(), server, folder, CASES)


def play_3_5(server: Server, folder: Path) -> list[Case]:
    return beside(tools_3_5(), server, folder, CASES)


def play_checks(server: Server, folder: Path) -> list[Case]:
    """With nothing beside it, and no transcript to compare: etcdctl itself says PASS or FAIL."""
    etcdctl, _ = tools_3_5()
    played = transcripts(etcdctl, server, folder, CHECKS)
    return [
        Case(name, PASSED if lines[-1] == "  exit 0" else FAILED, "\n".join(lines[-24:]))
        for name, lines in played.items()
    ]


Scripts = dict[str, Callable[[Player], None]]


def beside(tools: tuple[str, str], server: Server, folder: Path, cases: Scripts) -> list[Case]:
    """Plays the cases against both, side by side, and compares."""
    etcdctl, etcd = tools
    reference = Server("etcd", (etcd,), etcdctl)
    subject = Server(server.label, server.program if server.is_kontiki else (etcd,), etcdctl)
    with ThreadPoolExecutor(2) as pool:
        expected = pool.submit(transcripts, etcdctl, reference, folder / "reference", cases)
        found = pool.submit(transcripts, etcdctl, subject, folder / "subject", cases)
        return [
            compare(name, expected.result()[name], found.result()[name]) for name in cases
        ]


def transcripts(etcdctl: str, server: Server, folder: Path, cases: Scripts) -> dict[str, list[str]]:
    """Each case has a cluster of its own: none is spoilt by the failure of another."""
    return {name: transcript(etcdctl, server, folder / name, case) for name, case in cases.items()}


def transcript(
    etcdctl: str, server: Server, folder: Path, case: Callable[[Player], None]
) -> list[str]:
    names = NAMES if case in THREE else NAMES[:1]
    lines: list[str] = []
    try:
        with Cluster(server, folder, names, flags=FLAGS) as cluster:
            player = Player(etcdctl, cluster)
            lines = player.lines
            try:
                case(player)
            finally:
                player.close()
    except Exception:
        lines += [BROKE_OFF, *traceback.format_exc().splitlines()]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "transcript.txt").write_text("\n".join(lines) + "\n")
    return lines


def compare(name: str, expected: list[str], found: list[str]) -> Case:
    for side, lines in (("etcd itself", expected), ("here", found)):
        if BROKE_OFF in lines:
            return Case(name, FAILED, "\n".join([f"{side}:", *lines[-24:]]))
    if expected == found:
        return Case(name, PASSED)
    lines = difflib.unified_diff(expected, found, "etcd", "here", lineterm="", n=2)
    return Case(name, FAILED, "\n".join(lines))
