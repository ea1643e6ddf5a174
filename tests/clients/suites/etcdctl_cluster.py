"""The commands of etcdctl that work on the cluster: members, endpoints, alarms, upkeep, mirrors."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable

from kit.nodes import Cluster, poll
from kit.transcript import Player, three

QUOTA = 8 * 1024 * 1024
MEGABYTE = "x" * 1_000_000


def know_members(p: Player) -> dict[str, str]:
    """Gives every member its name in the transcript. Returns their ids in hex by name."""
    listed = json.loads(p.cluster.ask("member", "list", "-w", "json"))["members"]
    for member in listed:
        p.names.put(member["ID"], f"MEMBER-{member.get('name') or 'unnamed'}")
    return {member.get("name", ""): f"{member['ID']:x}" for member in listed}


def members_by_name(text: str) -> str:
    """The order is that of the ids, which are different everywhere."""
    answer = json.loads(text)
    answer["members"].sort(key=lambda member: member.get("name", ""))
    return json.dumps(answer, indent=1)


def initial_cluster_sorted(text: str) -> str:
    def in_order(found: re.Match[str]) -> str:
        return ",".join(sorted(found.group().split(",")))

    return re.sub(r'(?<=ETCD_INITIAL_CLUSTER=")[^"]+', in_order, text)


@three
def member(p: Player) -> None:
    # Led by n0, for n1 gets an address at which no peer reaches it.
    p.lead()
    ids = know_members(p)
    poll("members may be added", 30, lambda: settled(p))
    p.ctl("member", "list", unordered=True)
    p.ctl("member", "list", "-w", "table", unordered=True)
    p.ctl("member", "list", "-w", "json", shape=members_by_name)
    p.ctl("member", "update", ids["n1"], "--peer-urls=http://127.0.0.1:1")
    p.ctl("member", "list", unordered=True)
    p.ctl("member", "update", ids["n1"], f"--peer-urls=http://{p.cluster.nodes[1].peer}")
    p.ctl("member", "update", "123456789abc", "--peer-urls=http://127.0.0.1:1")
    p.ctl("member", "add", "n0", f"--peer-urls=http://{p.cluster.nodes[0].peer}")
    p.ctl("member", "add", "n9")
    p.ctl("member", "add", "n9", "--peer-urls=nonsense")
    p.ctl("member", "remove", "123456789abc")
    p.ctl("member", "remove", "nonsense")
    p.ctl("member", "promote", ids["n1"])
    p.ctl("member", "promote", "123456789abc")


def settled(p: Player) -> bool:
    """Until the members have known each other for a while, etcd refuses every addition."""
    try:
        p.cluster.ask("member", "add", "twice", f"--peer-urls=http://{p.cluster.nodes[0].peer}")
    except RuntimeError as refused:
        return "already exists" in str(refused)
    return False


@three
def member_changes(p: Player) -> None:
    """A learner is added, comes up, is promoted; another member goes."""
    p.lead()
    ids = know_members(p)
    joined = p.cluster.join("n3")
    p.names.put_text(joined.peer, "PEER-n3")
    p.names.put_text(joined.client, "CLIENT-n3")
    poll("members may be added", 30, lambda: settled(p))
    p.ctl("member", "add", "n3", "--learner", f"--peer-urls=http://{joined.peer}",
          shape=initial_cluster_sorted)
    learner = know_members(p)[""]
    p.ctl("member", "list", unordered=True)
    p.ctl("member", "promote", learner)
    p.cluster.start_joined(joined)
    poll("the learner has caught up", 30, lambda: promoted(p, learner))
    poll("the learner is known by name", 20, lambda: "n3" in know_members(p))
    p.ctl("member", "list", unordered=True)
    p.ctl("put", "a", "1", at=joined.client)
    p.ctl("member", "remove", ids["n2"])
    poll("three are left", 20, lambda: len(know_members(p)) == 3)
    p.ctl("member", "list", unordered=True)
    p.ctl("get", "a", at=joined.client)


def promoted(p: Player, learner: str) -> bool:
    return "promoted" in p.cluster.ask("member", "promote", learner)


def status(text: str) -> str:
    """Endpoint, id, leader, learner and errors; not the version, the sizes and the numbers."""
    rows = [line.split(", ") for line in text.splitlines()]
    return "\n".join(", ".join([*row[:2], *row[4:6], *row[9:]]) for row in rows)


def status_columns(text: str) -> str:
    return text.splitlines()[1]


def status_keys(text: str) -> str:
    def shape(value: object) -> object:
        if isinstance(value, dict):
            return {key: shape(value[key]) for key in sorted(value)}
        if isinstance(value, list):
            return [shape(item) for item in value]
        return type(value).__name__

    return json.dumps(shape(json.loads(text)), indent=1)


def health(text: str) -> str:
    answer = json.loads(text)
    return "\n".join(f"{item['endpoint']} {item['health']}" for item in answer)


def without_durations(text: str) -> str:
    return re.sub(r"\d[\d.]*(ns|µs|ms|s)\b", "TIME", text)


@three
def endpoint(p: Player) -> None:
    p.lead()
    know_members(p)
    everyone = p.cluster.endpoints
    p.ctl("put", "a", "1")
    p.ctl("put", "a", "2")
    p.ctl("endpoint", "health", unordered=True)
    p.ctl("endpoint", "health", at=everyone, unordered=True)
    p.ctl("endpoint", "health", "--cluster", unordered=True)
    p.ctl("endpoint", "health", "-w", "table", shape=without_durations)
    p.ctl("endpoint", "health", "-w", "json", at=everyone, shape=health, unordered=True)
    p.ctl("endpoint", "status", shape=status, unordered=True)
    p.ctl("endpoint", "status", at=everyone, shape=status, unordered=True)
    p.ctl("endpoint", "status", "--cluster", shape=status, unordered=True)
    p.ctl("endpoint", "status", "-w", "table", shape=status_columns)
    p.ctl("endpoint", "status", "-w", "json", shape=status_keys)
    for node in p.cluster.nodes:
        p.ctl("get", "a", at=node.client)
    p.ctl("endpoint", "hashkv", at=everyone, shape=hashes, unordered=True)
    p.ctl("endpoint", "hashkv", "--cluster", shape=hashes, unordered=True)
    p.ctl("endpoint", "hashkv", "--rev=2", at=everyone, shape=hashes, unordered=True)
    p.ctl("endpoint", "hashkv", "-w", "json", shape=status_keys)
    p.ctl("endpoint", "hashkv", "--rev=99")


def hashes(text: str) -> str:
    """Equal on all members; what they are is each server's own affair."""
    names: dict[str, str] = {}
    lines = []
    for line in text.splitlines():
        where, _, number = line.rpartition(", ")
        lines.append(f"{where}, {names.setdefault(number, f'HASH{len(names)}')}")
    return "\n".join(lines)


@three
def move_leader(p: Player) -> None:
    p.lead()
    ids = know_members(p)
    p.ctl("move-leader", ids["n1"])
    p.ctl("endpoint", "status", at=p.cluster.endpoints, shape=status, unordered=True)
    p.ctl("move-leader", ids["n2"])
    p.ctl("move-leader", ids["n2"], at=p.cluster.nodes[1].client)
    p.ctl("move-leader", "123456789abc", at=p.cluster.nodes[2].client)
    p.ctl("move-leader", "nonsense")
    p.ctl("move-leader", ids["n0"], at=p.cluster.endpoints)
    p.ctl("endpoint", "status", at=p.cluster.endpoints, shape=status, unordered=True)


def alarm(p: Player) -> None:
    """A store that is full, and the way out of it."""
    p.ctl("alarm", "list")
    p.ctl("alarm", "disarm")
    with Cluster(p.cluster.server, p.cluster.folder / "small", ["small"],
                 flags=("--quota-backend-bytes", str(QUOTA))) as small:
        q = Player(p.etcdctl, small)
        q.lines = p.lines
        know_members(q)
        filled = fill(q)
        q.lines.append(f"  full: {filled}")
        q.ctl("alarm", "list")
        q.ctl("alarm", "list", "-w", "json", shape=alarms)
        q.ctl("put", "k", "x")
        q.ctl("lease", "grant", "60")
        q.ctl("txn", stdin="\nput k x\n\n\n")
        q.ctl("get", "k")
        q.ctl("endpoint", "health")
        q.ctl("endpoint", "status", shape=lambda text: ", ".join(text.split(", ")[9:]))
        small.ask("del", "--prefix", "fill")
        revision = json.loads(small.ask("get", "k", "-w", "json"))["header"]["revision"]
        small.ask("compaction", "--physical", str(revision))
        q.ctl("defrag")
        q.ctl("alarm", "disarm")
        q.ctl("alarm", "list")
        q.ctl("put", "k", "x")
        q.close()


def alarms(text: str) -> str:
    """Without the header: etcd 3.4 sends none, and how many values fit is each server's affair."""
    return str(json.loads(text)["alarms"])


def fill(p: Player) -> str:
    """Puts until it is refused. Returns the words of the refusal."""
    for n in range(64):
        try:
            p.cluster.ask("put", f"fill{n}", stdin=MEGABYTE)
        except RuntimeError as refused:
            return str(refused).splitlines()[-1]
    return "never"


def upkeep(p: Player) -> None:
    for n in range(10):
        p.ctl("put", "a", str(n))
    p.ctl("compaction", "5")
    p.ctl("compaction", "5")
    p.ctl("compaction", "99")
    p.ctl("compaction", "x")
    p.ctl("get", "a", "--rev=4")
    p.ctl("get", "a", "--rev=5")
    p.ctl("compaction", "--physical", "8", "-w", "json")
    p.ctl("get", "a", "--rev=7")
    p.ctl("endpoint", "hashkv", "--rev=7")
    p.ctl("defrag")
    p.ctl("get", "a")


@three
def defrag_cluster(p: Player) -> None:
    p.ctl("put", "a", "1")
    p.ctl("defrag", "--cluster", unordered=True)
    p.ctl("get", "a")


def snapshot(p: Player) -> None:
    """The file is each server's own; the tool that belongs to it has to find it sound."""
    for n in range(20):
        p.cluster.ask("put", f"key{n}", f"value {n}")
    path = p.cluster.folder / "saved.db"
    p.ctl("snapshot", "save", str(path))
    tool = p.cluster.server.program[0] if p.cluster.server.is_kontiki else p.etcdctl
    checked = subprocess.run([tool, "snapshot", "status", str(path)], capture_output=True,
                             text=True, timeout=30, env={"ETCDCTL_API": "3", "PATH": ""})
    p.lines.append(f"  status of the file: exit {checked.returncode}")
    if checked.returncode:
        p.note(checked.stderr)
    p.ctl("snapshot", "save", str(p.cluster.folder / "none" / "saved.db"))


def make_mirror(p: Player) -> None:
    with Cluster(p.cluster.server, p.cluster.folder / "mirror", ["mirror"]) as mirror:
        p.ctl("put", "from/old", "1")
        p.ctl("put", "other", "1")
        target = mirror.nodes[0].client
        p.names.put_text(target, "CLIENT-mirror")
        copying = p.start("make-mirror", "--prefix", "from/", "--dest-prefix", "to/", target)
        poll("what was there is copied", 20, lambda: mirror.ask("get", "to/old"))
        p.ctl("put", "from/new", "2")
        p.ctl("txn", stdin="\nput from/x 1\nput from/y 1\ndel from/old\n\n\n")
        p.ctl("del", "from/x")
        p.ctl("put", "from/last", "3")
        poll("the last is copied", 20, lambda: mirror.ask("get", "to/last"))
        p.note(mirror.ask("get", "--prefix", ""))
        copying.interrupt()


CASES: dict[str, Callable[[Player], None]] = {
    "member": member,
    "member-changes": member_changes,
    "endpoint": endpoint,
    "move-leader": move_leader,
    "alarm": alarm,
    "upkeep": upkeep,
    "defrag-cluster": defrag_cluster,
    "snapshot": snapshot,
    "make-mirror": make_mirror,
}
