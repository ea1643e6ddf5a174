"""Two PostgreSQL servers under Patroni, which elects their primary through the store.

In the end there was never more than one primary, asked of Patroni and of PostgreSQL all the time.
PostgreSQL refuses to run as root, so as root all this runs as the user `postgres`.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path

from kit import packages
from kit.nodes import Cluster, Server, free_ports, poll
from kit.primaries import Postgres, Witness
from kit.report import FAILED, PASSED, SKIPPED, Case

LIB = Path("/usr/lib/postgresql")
START_S = 90
FAILOVER_S = 90
"""Patroni's shortest TTL is 20 s; then a replica has to notice, promote and say so."""
STAYS_S = 30
"""Longer than the TTL: a primary that could not renew would be gone by then."""


def tools() -> tuple[Path, Path]:
    """The Python that has Patroni, and the programs of PostgreSQL."""
    python = packages.venv("patroni", "patroni[etcd3]==4.1.5", "psycopg[binary]")
    if not list(LIB.glob("*/bin/initdb")):
        packages.debian("psql", "postgresql-15")
    found = sorted(LIB.glob("*/bin/initdb"))
    if not found:
        raise packages.Unavailable(f"there is no PostgreSQL server under {LIB}")
    return python, found[-1].parent


class Replicas:
    """The store and both servers, and the witness that watches them."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        python, programs = tools()
        ports = free_ports(4, None)
        self.servers = [
            Postgres(f"pg{at}", ports[2 * at], ports[2 * at + 1], folder, python, programs)
            for at in range(2)
        ]
        for server in self.servers:
            server.configure([node.client for node in cluster.nodes])
        self.witness = Witness(self.servers)

    def primary(self) -> Postgres:
        """The only one that Patroni calls primary."""
        primaries = [server for server in self.servers if server.says("primary")]
        if len(primaries) != 1:
            raise RuntimeError(f"{len(primaries)} primaries")
        return primaries[0]

    def other(self, server: Postgres) -> Postgres:
        return next(one for one in self.servers if one is not server)

    def settled(self) -> bool:
        """A primary, and a replica that follows it."""
        primary = self.primary()
        sent = primary.sql("select count(*) from pg_stat_replication where state = 'streaming'")
        return self.other(primary).says("replica") and sent == "1"


def elect(r: Replicas) -> None:
    """The two agree on a primary, and the other follows it."""
    for server in r.servers:
        server.start()
    poll("a primary and a replica", START_S, r.settled)
    r.primary().sql("create table kept (n int); insert into kept values (1)")
    poll("the row is at the replica", 20,
         lambda: r.other(r.primary()).sql("select n from kept") == "1")


def failover(r: Replicas) -> None:
    """Patroni and PostgreSQL of the primary are killed; the replica takes over with all rows."""
    killed = r.primary()
    successor = r.other(killed)
    killed.kill()
    poll("the replica has become primary", FAILOVER_S, lambda: successor.says("primary"))
    assert successor.sql("select n from kept") == "1", "the row is lost"
    # Patroni says it as soon as it has asked PostgreSQL for it.
    poll("it is writable", 20, lambda: successor.sql("insert into kept values (2) returning n"))
    killed.start()
    poll("the killed one follows", START_S, r.settled)
    assert r.primary() is successor, "the successor stays primary"
    poll("it has what it missed", 20, lambda: killed.sql("select count(*) from kept") == "2")


def switchover(r: Replicas) -> None:
    """A user asks for the other one."""
    leader = r.primary()
    candidate = r.other(leader)
    leader.ctl("switchover", "--force", "--leader", leader.name, "--candidate", candidate.name)
    poll("the candidate has become primary", FAILOVER_S, lambda: candidate.says("primary"))
    poll("the former primary follows", START_S, r.settled)
    assert r.primary() is candidate, "the candidate stays primary"


def store_leader_killed(r: Replicas) -> None:
    """The primary is the same before, during and long after the store's own failover."""
    primary = r.primary()
    timeline = primary.sql("select timeline_id from pg_control_checkpoint()")
    leader = r.cluster.leader()
    leader.kill()
    deadline = time.monotonic() + STAYS_S
    while time.monotonic() < deadline:
        assert primary.sql("select pg_is_in_recovery()") == "f", "the primary was demoted"
        assert not r.other(primary).says("primary"), "there is another primary"
        time.sleep(0.5)
    assert r.primary() is primary, "Patroni has the same primary"
    assert primary.sql("select timeline_id from pg_control_checkpoint()") == timeline
    r.cluster.restart(leader)
    poll("the store is whole again", START_S, r.cluster.healthy)


def one_primary(r: Replicas) -> None:
    """What the witness has seen while all that went on."""
    assert r.witness.looks > 50, f"it looked only {r.witness.looks} times"
    assert not r.witness.twice, "\n".join(r.witness.twice)


CASES: dict[str, Callable[[Replicas], None]] = {
    "elect": elect,
    "failover": failover,
    "switchover": switchover,
    "store-leader-killed": store_leader_killed,
    "never-two-primaries": one_primary,
}


def play(server: Server, folder: Path) -> list[Case]:
    """Each case stands on the one before it."""
    cases: list[Case] = []
    with Cluster(server, folder / "nodes", ["n0", "n1", "n2"]) as cluster:
        replicas = Replicas(cluster, folder)
        try:
            with replicas.witness:
                for name, case in CASES.items():
                    cases.append(attempt(name, case, replicas, cases))
        finally:
            for postgres in replicas.servers:
                postgres.stop()
    return cases


def attempt(
    name: str, case: Callable[[Replicas], None], replicas: Replicas, before: list[Case]
) -> Case:
    if any(earlier.verdict != PASSED for earlier in before) and case is not one_primary:
        return Case(name, SKIPPED, "an earlier case failed")
    try:
        case(replicas)
    except Exception:
        logs = [server.last_words() for server in replicas.servers]
        return Case(name, FAILED, "\n".join([*logs, traceback.format_exc()]))
    return Case(name, PASSED)
