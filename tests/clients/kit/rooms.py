"""A room of its own for each suite: its own loopback network and its own processes.

Some suites insist on port 2379 or look for processes by name; in a room they meet nobody. When a
room is left or its time is up, all that was started in it ends with it, and nothing else. Where
the system gives no rooms (no rights), suites run in the open, one at a time.
"""

from __future__ import annotations

import fcntl
import functools
import os
import signal
import socket
import struct
import subprocess
from pathlib import Path

SIOCSIFFLAGS = 0x8914
IFF_UP_RUNNING = 0x1 | 0x40

# The shell reaps what is orphaned in the room: a program whose child is a zombie for ever would
# think that it still runs.
REAPER = ["sh", "-c", '"$@"; exit $?', "room"]


@functools.cache
def walls() -> tuple[str, ...]:
    """The command that makes a room; empty where there are none."""
    rooms = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
    for command in (rooms, [*rooms, "--map-root-user"]):
        try:
            made = subprocess.run([*command, "true"], capture_output=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return ()
        if made.returncode == 0:
            return tuple(command)
    return ()


def furnish() -> None:
    """Switches on the loopback of a new room."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh", b"lo", IFF_UP_RUNNING)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)


living: set[subprocess.Popen[bytes]] = set()


def run(command: list[str], budget_s: float, log: Path) -> str:
    """Runs the command in a room. Returns what went wrong, or nothing."""
    with log.open("ab") as out:
        child = subprocess.Popen(
            [*walls(), *REAPER, *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        living.add(child)
        try:
            code = child.wait(budget_s)
        except subprocess.TimeoutExpired:
            return f"not finished within {budget_s:.0f} s"
        finally:
            end(child)
            living.discard(child)
    return f"ended with code {code}" if code else ""


def end(child: subprocess.Popen[bytes]) -> None:
    """Ends the child's whole group, and with its first process the whole room."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()
