"""What etcdctl says, command by command, so written down that two servers can be compared.

What no two clusters have in common gets a name in the order of first appearance: ids, ports,
leases, hashes. Equal things keep equal names. Revisions stay as they are: the same commands give
the same ones everywhere. Times and sizes are left out.
"""

from __future__ import annotations

import json
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable

from .nodes import Cluster, etcdctl_environment, poll

COMMAND_S = 30
WAIT_S = 20

IDS = re.compile(r"\b(?:[0-9a-f]{12,16}|\d{15,20})\b")
CHANGING = [
    (re.compile(r"took = ?\S+|took \S+"), "took TIME"),
    (re.compile(r'"took":"[^"]+"'), '"took":"TIME"'),
    (re.compile(r"remaining\(\d+s\)"), "remaining(TIME)"),
    (re.compile(r'"raft_term": ?\d+'), '"raft_term":TERM'),
    (re.compile(r'"RaftTerm" : \d+'), '"RaftTerm" : TERM'),
    # Columns are as wide as what stands in them.
    (re.compile(r" {2,}"), " "),
    (re.compile(r"-{3,}"), "---"),
]
LOG_LINE = re.compile(r'^\{"level":|^\d{4}-\d\d-\d\d[T ]')
GO_STACK = re.compile(r"^goroutine .*", re.MULTILINE | re.DOTALL)

Shape = Callable[[str], str]
Split = Callable[[str], list[str]]


THREE: set[Callable[[Player], None]] = set()


def three(case: Callable[[Player], None]) -> Callable[[Player], None]:
    """Marks a case that wants three nodes instead of one."""
    THREE.add(case)
    return case


class Names:
    """Stable names for what is different in each cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.known: dict[int, str] = {}
        self.texts: dict[str, str] = {str(cluster.folder.resolve()): "FOLDER"}
        self.count = 0

    def put(self, number: int, name: str) -> None:
        self.known[number] = name

    def put_text(self, text: str, name: str) -> None:
        self.texts[text] = name

    def clean(self, text: str) -> str:
        for node in self.cluster.nodes:
            text = text.replace(node.client, f"CLIENT-{node.name}")
            text = text.replace(node.peer, f"PEER-{node.name}")
        for real, name in self.texts.items():
            text = text.replace(real, name)
        text = IDS.sub(lambda found: self.name(found.group()), text)
        for pattern, name in CHANGING:
            text = pattern.sub(name, text)
        return text

    def name(self, text: str) -> str:
        """One id is printed in hex by some commands, in decimal by others."""
        readings = {int(text)} if text.isdigit() else set()
        if len(text) <= 16:
            readings.add(int(text, 16))
        for reading in readings:
            if reading in self.known:
                return self.known[reading]
        self.count += 1
        for reading in readings:
            self.known[reading] = f"ID{self.count}"
        return f"ID{self.count}"


class Player:
    """Plays commands against one cluster and keeps the transcript."""

    def __init__(self, etcdctl: str, cluster: Cluster) -> None:
        self.etcdctl = etcdctl
        self.cluster = cluster
        self.command_s = COMMAND_S
        self.names = Names(cluster)
        self.lines: list[str] = []
        self.running: list[Running] = []

    def note(self, text: str, shape: Shape = str, unordered: bool = False) -> None:
        """Writes an answer down, without what changes from run to run."""
        text = GO_STACK.sub("", text)
        kept = [line.rstrip() for line in text.splitlines() if not LOG_LINE.match(line)]
        lines = self.names.clean(shape("\n".join(kept))).split("\n")
        self.lines += [f"  {line}" for line in (sorted(lines) if unordered else lines)]

    def ctl(
        self, *args: str, stdin: str = "", shape: Shape = str, unordered: bool = False,
        at: str = "",
    ) -> str:
        """Runs a command to its end. Returns its standard output as it is.

        `unordered` is for lines whose order is that of ids, or of who answers first.
        """
        return self.run(*args, stdin=stdin, shape=shape, unordered=unordered, at=at).stdout

    def run(
        self, *args: str, stdin: str = "", shape: Shape = str, unordered: bool = False,
        at: str = "",
    ) -> subprocess.CompletedProcess[str]:
        self.lines.append(self.names.clean("$ etcdctl " + " ".join(args)))
        done = subprocess.run(
            self.command(args, at), input=stdin, capture_output=True, text=True,
            timeout=self.command_s, env=etcdctl_environment(), cwd=self.cluster.folder,
        )
        try:
            self.note(done.stdout + done.stderr, shape, unordered)
        except (ValueError, LookupError) as error:
            self.note(f"{done.stdout}{done.stderr}\n(not of the expected form: {error!r})")
        self.lines.append(f"  exit {done.returncode}")
        return done

    def start(self, *args: str, at: str = "") -> Running:
        """A command that goes on, as watch does."""
        self.lines.append(self.names.clean("$ etcdctl " + " ".join(args) + " &"))
        running = Running(self, self.command(args, at))
        self.running.append(running)
        return running

    def command(self, args: tuple[str, ...], at: str) -> list[str]:
        endpoints = at or self.cluster.nodes[0].client
        return [self.etcdctl, f"--endpoints={endpoints}", *args]

    def lead(self, at: int = 0) -> None:
        """Sees to it that this node leads: what some commands say depends on it."""
        target = self.cluster.nodes[at]

        def led() -> bool:
            leader = self.cluster.leader()
            if leader is not target:
                ids = self.cluster.ask("member", "list").splitlines()
                own = next(line.split(",")[0] for line in ids if f" {target.name}," in line)
                command = [f"--endpoints={leader.client}", "move-leader", own]
                subprocess.run([self.etcdctl, *command], capture_output=True,
                               timeout=COMMAND_S, env=etcdctl_environment(), check=False)
            return leader is target

        poll(f"{target.name} leads", WAIT_S, led)

    def close(self) -> None:
        for running in self.running:
            running.process.kill()
            running.process.wait()


class Running:
    """A command that goes on, and the lines it has printed."""

    def __init__(self, player: Player, command: list[str]) -> None:
        self.player = player
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, env=etcdctl_environment(), cwd=player.cluster.folder,
        )
        self.arrived: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        for line in self.process.stdout or []:
            if not LOG_LINE.match(line):
                self.arrived.put(line.rstrip("\n"))

    def until(self, count: int, split: Split = lambda line: [line]) -> None:
        """Waits for so many more lines (or what they are split into), and writes them down."""
        lines: list[str] = []
        deadline = time.monotonic() + WAIT_S
        while len(lines) < count:
            try:
                line = self.arrived.get(timeout=max(0.0, deadline - time.monotonic()))
                lines += split(line)
            except queue.Empty:
                lines.append(f"({count - len(lines)} more did not come)")
                break
        self.player.note("\n".join(lines))

    def events(self, count: int) -> None:
        """Waits for so many events of a watch in JSON: how many come at once is luck."""
        self.until(count, lambda line: [json.dumps(one) for one in json.loads(line)["Events"]])

    def silent(self, seconds: float) -> None:
        """Writes down what comes although nothing should."""
        try:
            self.player.note("unexpected: " + self.arrived.get(timeout=seconds))
        except queue.Empty:
            self.player.lines.append("  (nothing)")

    def type(self, text: str) -> None:
        if self.process.stdin:
            self.process.stdin.write(text)
            self.process.stdin.flush()

    def interrupt(self) -> None:
        """Ctrl-C, and what the command says to that."""
        self.process.send_signal(signal.SIGINT)
        self.ended()

    def ended(self) -> None:
        try:
            code = self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.player.lines.append("  (does not end)")
            self.process.kill()
            return
        self.player.lines.append(f"  exit {code}")
