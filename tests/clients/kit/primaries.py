"""One PostgreSQL server under Patroni, and a witness that looks for two primaries at once."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path

SCOPE = "clients"
USER = "postgres"
ASK_S = 5
LOG_BYTES = 3000

# Patroni's environment may stand in a folder that only root may read; PostgreSQL minds only who
# it runs as.
AS_POSTGRES = [
    "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
]


class Postgres:
    """A Patroni process and the PostgreSQL that it runs."""

    def __init__(
        self, name: str, rest_port: int, sql_port: int, folder: Path, python: Path, programs: Path
    ) -> None:
        self.name = name
        self.rest = f"127.0.0.1:{rest_port}"
        self.sql_port = sql_port
        self.python = python
        self.programs = programs
        self.folder = folder / name
        self.process: subprocess.Popen[bytes] | None = None
        self.folder.mkdir()
        if os.geteuid() == 0:
            owner = pwd.getpwnam(USER)
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)

    def configure(self, store: list[str]) -> None:
        """Patroni's settings; JSON is YAML too. The times are the shortest that it takes."""
        settings = {
            "scope": SCOPE,
            "name": self.name,
            "restapi": {"listen": self.rest, "connect_address": self.rest},
            "etcd3": {"hosts": store},
            "bootstrap": {
                "dcs": {
                    "ttl": 20, "loop_wait": 1, "retry_timeout": 5,
                    "postgresql": {"use_pg_rewind": True, "parameters": {"fsync": "off"}},
                },
                "initdb": [{"encoding": "UTF8"}, "data-checksums", {"auth": "trust"}],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.sql_port}",
                "connect_address": f"127.0.0.1:{self.sql_port}",
                "data_dir": str(self.folder / "data"),
                "bin_dir": str(self.programs),
                "pgpass": str(self.folder / "pgpass"),
                "authentication": {
                    "superuser": {"username": USER},
                    "replication": {"username": "replicator"},
                    "rewind": {"username": USER},
                },
                "parameters": {"unix_socket_directories": str(self.folder)},
                "pg_hba": [
                    "local all all trust",
                    "host all all 127.0.0.1/32 trust",
                    "host replication all 127.0.0.1/32 trust",
                ],
            },
        }
        (self.folder / "patroni.yml").write_text(json.dumps(settings, indent=1))

    def start(self) -> None:
        command = [str(self.python.parent / "patroni"), str(self.folder / "patroni.yml")]
        with (self.folder / "patroni.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.unprivileged(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.folder, env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
            )

    @staticmethod
    def unprivileged(command: list[str]) -> list[str]:
        return [*AS_POSTGRES, *command] if os.geteuid() == 0 else command

    def kill(self) -> None:
        """Both at once, as when the machine fails."""
        postmaster = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        if self.process:
            self.process.kill()
        os.kill(postmaster, signal.SIGKILL)
        if self.process:
            self.process.wait()

    def stop(self) -> None:
        """Patroni stops its PostgreSQL."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    def says(self, role: str) -> bool:
        """What Patroni says of itself: `primary` or `replica`."""
        try:
            with urllib.request.urlopen(f"http://{self.rest}/{role}", timeout=ASK_S) as answer:
                return answer.status == 200
        except urllib.error.HTTPError:
            return False
        except OSError:
            return False

    def sql(self, text: str) -> str:
        command = [str(self.programs / "psql"), "-h", "127.0.0.1", "-p", str(self.sql_port),
                   "-U", USER, "-d", "postgres", "-XqAtc", text]
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S,
                              env={**os.environ, "PGCONNECT_TIMEOUT": str(ASK_S)})
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return done.stdout.strip()

    def leads(self) -> bool:
        """Whether one of the two, Patroni or PostgreSQL, thinks itself the primary."""
        if self.says("primary"):
            return True
        try:
            return self.sql("select pg_is_in_recovery()") == "f"
        except (RuntimeError, subprocess.TimeoutExpired):
            return False

    def ctl(self, *args: str) -> str:
        command = [str(self.python.parent / "patronictl"), "-c",
                   str(self.folder / "patroni.yml"), *args, SCOPE]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"patronictl: {done.stdout}{done.stderr}")
        return done.stdout

    def last_words(self) -> str:
        log = self.folder / "patroni.log"
        text = log.read_text(errors="replace") if log.exists() else "never started"
        return f"--- {self.name}\n{text[-LOG_BYTES:]}"


class Witness:
    """Looks at both servers all the time. It accuses only when one was primary before and after
    the other was: nobody turns twice between two looks."""

    def __init__(self, servers: list[Postgres]) -> None:
        self.servers = servers
        self.looks = 0
        self.twice: list[str] = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self) -> Witness:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join(4 * ASK_S)

    def watch(self) -> None:
        one, other = self.servers
        while not self.over.wait(0.2):
            if one.leads() and other.leads() and one.leads():
                self.twice.append(f"look {self.looks}: both are primary")
            self.looks += 1
