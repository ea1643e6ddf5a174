"""What became of each case, and the table at the end.

A case that fails is red unless `known.toml` explains it. What is explained and passes all the
same is red too: the list never keeps what is no longer true.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path

PASSED, FAILED, SKIPPED, KNOWN = "passed", "failed", "skipped", "known"
DETAIL_LINES_MAX = 60


@dataclass(frozen=True)
class Case:
    """One test of a suite. `detail` says why it failed or was skipped."""

    name: str
    verdict: str
    detail: str = ""


@dataclass
class Outcome:
    """All cases of one suite against one server. `unavailable` says why there are none."""

    suite: str
    server: str
    seconds: float = 0.0
    cases: list[Case] = field(default_factory=list)
    unavailable: str = ""

    def count(self, verdict: str) -> int:
        return sum(case.verdict == verdict for case in self.cases)

    def red(self) -> bool:
        return self.count(FAILED) > 0

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Outcome:
        saved = json.loads(path.read_text())
        saved["cases"] = [Case(**case) for case in saved["cases"]]
        return cls(**saved)


@dataclass(frozen=True)
class Difference:
    """A case that is known to fail against these servers, and why."""

    suite: str
    case: str
    servers: tuple[str, ...]
    why: str


def differences(path: Path) -> list[Difference]:
    entries = tomllib.loads(path.read_text()).get("known", [])
    return [
        Difference(entry["suite"], entry["case"], tuple(entry["servers"]), entry["why"])
        for entry in entries
    ]


def judge(outcome: Outcome, known: list[Difference]) -> None:
    """Lets the explained failures pass, and fails explanations of what does not fail."""
    for entry in known:
        if entry.suite != outcome.suite or outcome.server not in entry.servers:
            continue
        for at, case in enumerate(outcome.cases):
            if case.name != entry.case:
                continue
            if case.verdict == FAILED:
                outcome.cases[at] = Case(case.name, KNOWN, entry.why)
            elif case.verdict == PASSED:
                outcome.cases[at] = Case(
                    case.name, FAILED, "passes, though known.toml says why it cannot: take it out"
                )


def show(outcome: Outcome) -> str:
    """The lines below a suite: what failed, in full, and what is explained."""
    lines = []
    for case in outcome.cases:
        if case.verdict == FAILED:
            detail = case.detail.strip().splitlines()
            kept = detail[-DETAIL_LINES_MAX:]
            lines += [f"  FAILED {case.name}", *(f"    {line}" for line in kept)]
        elif case.verdict == KNOWN:
            lines.append(f"  known  {case.name}: {case.detail}")
    return "\n".join(lines)


def table(outcomes: list[Outcome]) -> str:
    """One line for each suite and server, then the sum in the words of a test runner."""
    rows = [("suite", "server", "passed", "failed", "known", "skipped", "seconds")]
    for outcome in outcomes:
        counts = [str(outcome.count(v)) for v in (PASSED, FAILED, KNOWN, SKIPPED)]
        seconds = outcome.unavailable or f"{outcome.seconds:.0f}"
        if outcome.unavailable:
            counts = ["-"] * 4
            seconds = f"skipped: {outcome.unavailable}"
        rows.append((outcome.suite, outcome.server, *counts, seconds))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    text = "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[6]])
        for row in rows
    )
    passed = sum(outcome.count(PASSED) + outcome.count(KNOWN) for outcome in outcomes)
    failed = sum(outcome.count(FAILED) for outcome in outcomes)
    skipped = sum(outcome.count(SKIPPED) for outcome in outcomes)
    return f"{text}\n\nclients: {passed} passed, {failed} failed, {skipped} skipped"
