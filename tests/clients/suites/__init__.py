"""The suites, in the order in which they are reported.

Each is a function that plays against a cluster of one server and returns its cases, and one that
fetches what it needs beforehand, while there is a network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kit.nodes import Server
from kit.report import Case

from . import etcdctl, patroni, python, rust


@dataclass(frozen=True)
class Suite:
    """`cases` and `skips` are what etcd itself gets: fewer cases or more skips are red.

    One that is `alone` measures: it is played when all others are over."""

    name: str
    prepare: Callable[[], object]
    play: Callable[[Server, Path], list[Case]]
    budget_s: int
    cases: int
    skips: int = 0
    long: bool = False
    alone: bool = False


SUITES = [
    Suite("etcdctl-3.4", etcdctl.tools_3_4, etcdctl.play_3_4, 300, len(etcdctl.CASES)),
    Suite("etcdctl-3.5", etcdctl.tools_3_5, etcdctl.play_3_5, 300, len(etcdctl.CASES)),
    Suite("etcdctl-check", etcdctl.tools_3_5, etcdctl.play_checks, 300, len(etcdctl.CHECKS),
          long=True, alone=True),
    Suite("etcd3", python.etcd3_tools, python.etcd3, 420, 82),
    Suite("etcd3gw", python.gateway_tools, python.etcd3gw, 180, 39),
    Suite("tooz", python.gateway_tools, python.tooz, 300, 83, skips=18),
    Suite("etcd-client", rust.tools, rust.play, 300, 27, skips=len(rust.AUTH),
          long=True),
    Suite("patroni", patroni.tools, patroni.play, 420, len(patroni.CASES), long=True),
]
