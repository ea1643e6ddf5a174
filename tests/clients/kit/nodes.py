"""Clusters of etcd or of Kontiki on 127.0.0.1, started alike: they take the same flags.

A cluster knows nothing of the suite that uses it. It signals only processes that it started.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

READY_S = 60
STOP_S = 10


@dataclass(frozen=True)
class Server:
    """A program that serves the etcd API, and an etcdctl to ask whether it is ready."""

    label: str
    program: tuple[str, ...]
    etcdctl: str

    @property
    def is_kontiki(self) -> bool:
        return self.label == "kontiki"


class NodeEnded(Exception):
    """A node is gone that should run; there is no use in waiting for it."""


class Node:
    """One member: its addresses, its folder, and its process while it runs."""

    def __init__(self, name: str, client_port: int, peer_port: int, folder: Path) -> None:
        self.name = name
        self.client = f"127.0.0.1:{client_port}"
        self.peer = f"127.0.0.1:{peer_port}"
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, server: Server, members: str, state: str, flags: tuple[str, ...]) -> None:
        # `--name NAME` in two words: a suite looks for it on the command line.
        command = [
            *server.program, "--name", self.name, "--data-dir", str(self.folder / self.name),
            "--listen-client-urls", f"http://{self.client}",
            "--advertise-client-urls", f"http://{self.client}",
            "--listen-peer-urls", f"http://{self.peer}",
            "--initial-advertise-peer-urls", f"http://{self.peer}",
            "--initial-cluster", members, "--initial-cluster-state", state, *flags,
        ]
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def signal(self, number: signal.Signals) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self.process:
            self.process.wait()

    def stop(self) -> None:
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            if self.process:
                self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()


class Cluster:
    """Some nodes of one server; a context that ends them."""

    def __init__(
        self, server: Server, folder: Path, names: list[str],
        first_port: int | None = None, flags: tuple[str, ...] = (),
    ) -> None:
        self.server = server
        self.folder = folder
        self.flags = flags
        folder.mkdir(parents=True, exist_ok=True)
        ports = free_ports(2 * len(names), first_port)
        self.nodes = [
            Node(name, ports[2 * at], ports[2 * at + 1], folder) for at, name in enumerate(names)
        ]

    def __enter__(self) -> Cluster:
        members = self.members(self.nodes)
        for node in self.nodes:
            node.start(self.server, members, "new", self.flags)
        try:
            self.wait_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.signal(signal.SIGTERM)
        for node in self.nodes:
            node.stop()
            # Logs of entries are large even when they are empty.
            shutil.rmtree(self.folder / node.name, ignore_errors=True)

    @staticmethod
    def members(nodes: list[Node]) -> str:
        return ",".join(f"{node.name}=http://{node.peer}" for node in nodes)

    @property
    def endpoints(self) -> str:
        return ",".join(node.client for node in self.nodes)

    def join(self, name: str) -> Node:
        """A node that was not there; `member add` it, then start it."""
        client_port, peer_port = free_ports(2, None)
        return Node(name, client_port, peer_port, self.folder)

    def start_joined(self, node: Node) -> None:
        node.start(self.server, self.members([*self.nodes, node]), "existing", self.flags)
        self.nodes.append(node)

    def restart(self, node: Node) -> None:
        node.start(self.server, self.members(self.nodes), "new", self.flags)

    def ask(self, *args: str, stdin: str = "", timeout_s: float = 20) -> str:
        """etcdctl, for what is no part of a transcript."""
        done = subprocess.run(
            [self.server.etcdctl, f"--endpoints={self.endpoints}", *args],
            capture_output=True, text=True, timeout=timeout_s, input=stdin,
            env=etcdctl_environment(),
        )
        if done.returncode:
            raise RuntimeError(f"etcdctl {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def wait_ready(self) -> None:
        poll("every node answers", READY_S, self.healthy)

    def healthy(self) -> bool:
        """Whether every node answers, by the exit code: some etcdctl say it on standard error."""
        for node in self.nodes:
            if node.process and node.process.poll() is not None:
                log = (self.folder / f"{node.name}.log").read_text(errors="replace")
                raise NodeEnded(f"{node.name} ended:\n{log[-2000:]}")
        self.ask("endpoint", "health")
        return True

    def leader(self) -> Node:
        """The node that says of itself that it leads."""
        status = self.ask("endpoint", "status")
        rows = [line.split(", ") for line in status.splitlines()]
        leading = [row[0] for row in rows if row[4] == "true"]
        return next(node for node in self.nodes if node.client in leading)


def etcdctl_environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "ETCDCTL_API": "3"}


def poll(what: str, seconds: float, attempt):
    """Tries until the attempt gives something true; its last error says why it never did."""
    deadline, last = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        try:
            if result := attempt():
                return result
        except (RuntimeError, OSError, StopIteration, subprocess.TimeoutExpired) as error:
            last = error
        time.sleep(0.1)
    raise TimeoutError(f"not within {seconds:.0f} s: {what} ({last})")


def free_ports(count: int, first: int | None) -> list[int]:
    """Ports that nobody listens on: any, or the first and those behind it."""
    wanted = range(first, first + count) if first else [0] * count
    sockets = []
    try:
        for port in wanted:
            sockets.append(socket.create_server(("127.0.0.1", port)))
        return [held.getsockname()[1] for held in sockets]
    finally:
        for held in sockets:
            held.close()
