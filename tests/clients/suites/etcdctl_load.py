"""The commands of etcdctl that put load on a cluster and say whether it is good enough."""

from __future__ import annotations

import re
from collections.abc import Callable

from kit.transcript import Player


def verdicts(text: str) -> str:
    """Without the bar that shows how far it is, and without the figures."""
    lines = re.split(r"[\r\n]+", text)
    kept = [line for line in lines if re.match(r"PASS|FAIL|Start|Error", line.strip())]
    return re.sub(r"\d+(\.\d+)?( MB| writes/s|s)", "FIGURE", "\n".join(kept))


def perf(p: Player) -> None:
    """A minute of 150 writes in a second."""
    p.command_s = 120
    p.ctl("check", "perf", "--load=s", "--auto-compact", "--auto-defrag", shape=verdicts)


def datascale(p: Player) -> None:
    p.command_s = 120
    p.ctl("check", "datascale", "--load=s", "--auto-compact", "--auto-defrag", shape=verdicts)


CASES: dict[str, Callable[[Player], None]] = {"check-perf": perf, "check-datascale": datascale}
