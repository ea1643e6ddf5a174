"""The commands of etcdctl that work on keys: put, get, del, txn, watch, lease, lock, elect."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from kit.nodes import poll
from kit.transcript import Player

FORMATS = ("simple", "json", "fields")


def put(p: Player) -> None:
    p.ctl("put", "a", "1")
    p.ctl("put", "a", "2", "--prev-kv")
    p.ctl("put", "new", "1", "--prev-kv")
    p.ctl("put", "from-stdin", stdin="two\nlines")
    p.ctl("put", "dash", "--", "-value")
    p.ctl("put", "empty", "")
    p.ctl("put", "", "x")
    p.ctl("put", "a", "--ignore-value")
    p.ctl("put", "absent", "--ignore-value")
    p.ctl("put", "a", "3", "--ignore-lease")
    p.ctl("put", "absent", "3", "--ignore-lease")
    p.ctl("put", "a", "x", "--lease=123456789abc")
    lease = granted(p, "600")
    p.ctl("put", "leased", "1", f"--lease={lease}")
    p.ctl("put", "leased", "2", "--ignore-lease")
    p.ctl("put", "leased", "--ignore-value", f"--lease={lease}")
    for form in FORMATS:
        p.ctl("put", "a", form, "--prev-kv", "-w", form)
        p.ctl("get", "leased", "-w", form)
    p.ctl("put", "a", "--hex", "x")
    p.ctl("put")


def get(p: Player) -> None:
    for key in ("a1", "a2", "a3", "b1", "b2", "c"):
        p.ctl("put", key, f"value of {key}")
    p.ctl("put", "a2", "0 newer")
    p.ctl("put", "a2", "0 newest")
    p.ctl("get", "a1")
    p.ctl("get", "absent")
    p.ctl("get", "a1", "b2")
    p.ctl("get", "b", "a")
    p.ctl("get", "--prefix", "a")
    p.ctl("get", "--prefix", "")
    p.ctl("get", "--from-key", "b1")
    p.ctl("get", "--from-key", "")
    p.ctl("get", "--prefix", "a", "--limit", "2")
    p.ctl("get", "--prefix", "a", "--limit", "2", "-w", "json")
    p.ctl("get", "--prefix", "a", "--keys-only")
    p.ctl("get", "--prefix", "a", "--print-value-only")
    p.ctl("get", "--prefix", "a", "--count-only", "-w", "fields")
    p.ctl("get", "--prefix", "a", "--hex")
    for target in ("CREATE", "KEY", "MODIFY", "VALUE", "VERSION"):
        for order in ("ASCEND", "DESCEND"):
            p.ctl("get", "--prefix", "", "--sort-by", target, "--order", order)
        p.ctl("get", "--prefix", "", "--sort-by", target, "--limit", "3")
    p.ctl("get", "--prefix", "", "--order", "DESCEND")
    p.ctl("get", "a1", "--order", "SIDEWAYS")
    p.ctl("get", "a2", "--rev", "3")
    p.ctl("get", "a2", "--rev", "8")
    p.ctl("get", "a2", "--rev", "99")
    p.ctl("get", "a2", "--consistency", "s")
    p.ctl("get", "a2", "--consistency", "x")
    for form in FORMATS:
        p.ctl("get", "--prefix", "a", "-w", form)
    p.ctl("get", "--prefix", "--from-key", "a")


def delete(p: Player) -> None:
    for key in ("a1", "a2", "a3", "b1", "b2", "c", "d"):
        p.ctl("put", key, f"value of {key}")
    p.ctl("del", "a1")
    p.ctl("del", "a1")
    p.ctl("del", "a2", "--prev-kv")
    p.ctl("del", "a2", "b2")
    p.ctl("get", "--prefix", "")
    p.ctl("del", "--prefix", "b", "--prev-kv", "-w", "json")
    p.ctl("del", "--from-key", "d", "-w", "fields")
    p.ctl("del", "--prefix", "")
    p.ctl("del", "")
    p.ctl("get", "--prefix", "", "-w", "json")


def txn(p: Player) -> None:
    p.ctl("put", "a", "1")
    p.ctl("txn", stdin='value("a") = "1"\n\nput a 2\nget a\n\nput b no\n\n')
    p.ctl("txn", "-i", stdin='value("a") = "1"\n\nput a 3\n\nput b "went else"\ndel a\nget b\n\n')
    three_compares = 'mod("a") > "0"\ncreate("b") != "0"\nversion("b") < "9"\n'
    p.ctl("txn", stdin=f"{three_compares}\nput c 1\n\nget b\n\n")
    p.ctl("txn", "-w", "json", stdin='lease("b") = "0"\n\nget --prefix ""\ndel --prefix b\n\n\n')
    p.ctl("txn", "-w", "fields", stdin='version("none") = "0"\n\nget c\n\n\n')
    p.ctl("txn", stdin="\nput a 1\nput a 2\n\n\n")
    p.ctl("txn", stdin="\nput a 1\ndel --prefix a\n\n\n")
    p.ctl("txn", stdin="\ndel a\ndel a\n\n\n")
    p.ctl("txn", stdin="\nput a 1 --lease=123456789abc\n\n\n")
    p.ctl("txn", stdin="\nget a --rev=99\nput z 1\n\n\n")
    p.ctl("get", "z")
    p.ctl("txn", stdin="nonsense\n\n\n\n")
    p.ctl("txn", stdin="\n" + "".join(f"put k{n} 1\n" for n in range(129)) + "\n\n")
    p.ctl("txn", stdin="\n\n\n")


def watch(p: Player) -> None:
    """From a revision on: so it matters not who is quicker."""
    for n in range(3):
        p.ctl("put", f"w/{n}", f"old {n}")
    p.ctl("del", "w/0")
    past = p.start("watch", "--prefix", "w/", "--rev=2")
    past.until(12)
    prev = p.start("watch", "w/1", "--rev=6", "--prev-kv")
    ranged = p.start("watch", "w/1", "w/3", "--rev=6", "-w", "json")
    fields = p.start("watch", "w/2", "--rev=1", "-w", "fields")
    p.ctl("put", "w/1", "new")
    p.ctl("put", "w/9", "out of range")
    p.ctl("txn", stdin="\nput w/1 together\nput w/2 together\ndel w/9\n\n\n")
    p.ctl("del", "w/1")
    past.until(16)
    prev.until(15)
    ranged.events(4)
    fields.until(1)
    runs = p.start("watch", "--prefix", "w/", "--rev=9", "--", "sh", "-c",
                   'echo "$ETCD_WATCH_REVISION $ETCD_WATCH_EVENT_TYPE $ETCD_WATCH_KEY'
                   ' $ETCD_WATCH_VALUE"')
    runs.until(7)
    for running in (past, prev, ranged, runs):
        running.interrupt()
    p.ctl("compaction", "7")
    compacted = p.start("watch", "w/1", "--rev=3")
    compacted.until(2)
    compacted.ended()
    p.start("watch", "w/1", "--rev=7").until(3)


def watch_interactive(p: Player) -> None:
    typed = p.start("watch", "-i")
    typed.type("watch --rev=2 a\n")
    typed.type("watch --rev=2 --prefix b -- echo seen\n")
    p.ctl("put", "a", "1")
    typed.until(3)
    p.ctl("put", "bb", "2")
    typed.until(4)
    typed.type("progress\n")
    typed.until(1)
    typed.interrupt()


def watch_progress(p: Player) -> None:
    """An idle watch hears of the revision it has reached; the interval is a second here."""
    if "--progress-notify" not in p.ctl("watch", "--help"):
        return  # etcdctl 3.4 cannot ask for it.
    p.ctl("put", "a", "1")
    p.ctl("put", "elsewhere", "1")
    told = p.start("watch", "a", "--rev=2", "--progress-notify")
    told.until(4)
    told.interrupt()


def granted(p: Player, ttl: str, *flags: str) -> str:
    answer = p.ctl("lease", "grant", ttl, *flags)
    found = re.search(r"lease (\w+) granted", answer)
    return found.group(1) if found else "1"


def lease(p: Player) -> None:
    one = granted(p, "600")
    two = granted(p, "60")
    p.ctl("lease", "grant", "0")
    p.ctl("lease", "grant", "1")
    p.ctl("lease", "grant", "9000000001")
    p.ctl("lease", "grant", "x")
    p.ctl("put", "b", "1", f"--lease={one}")
    p.ctl("put", "a", "1", f"--lease={one}")
    p.ctl("lease", "timetolive", one)
    p.ctl("lease", "timetolive", one, "--keys", shape=keys_sorted)
    p.ctl("lease", "timetolive", one, "--keys", "-w", "json", shape=keys_sorted)
    p.ctl("lease", "timetolive", "123456789abc")
    p.ctl("lease", "keep-alive", "--once", one)
    p.ctl("lease", "keep-alive", "--once", "123456789abc")
    lasting = p.start("lease", "keep-alive", two)
    lasting.until(1)
    p.ctl("lease", "revoke", two)
    p.ctl("lease", "revoke", two)
    p.ctl("lease", "revoke", one)
    p.ctl("get", "--prefix", "", "-w", "json")
    p.ctl("lease", "timetolive", one, "--keys")
    lasting.interrupt()


def lease_list(p: Player) -> None:
    p.ctl("lease", "list")
    for ttl in ("100", "200", "300"):
        granted(p, ttl)
    p.ctl("lease", "list", unordered=True)
    answer = p.ctl("lease", "grant", "100", "-w", "json")
    p.ctl("lease", "revoke", f"{json.loads(answer)['ID']:x}", "-w", "json")


def lease_expires(p: Player) -> None:
    short = granted(p, "2")
    p.ctl("put", "short", "1", f"--lease={short}")
    gone = p.start("watch", "short", "--rev=3")
    gone.until(3)
    p.ctl("get", "short", "-w", "json")
    p.ctl("lease", "timetolive", short)


def keys_sorted(text: str) -> str:
    """The keys of a lease come in any order; and its time runs."""
    text = re.sub(r'"ttl":5\d\d', '"ttl":TIME', text)
    text = text.replace("keys([b a])", "keys([a b])")
    return text.replace('"Yg==","YQ=="', '"YQ==","Yg=="')


def lock(p: Player) -> None:
    p.ctl("lock", "name", "--", "sh", "-c", "echo $ETCD_LOCK_KEY $ETCD_LOCK_REV; exit 0")
    p.ctl("lock", "name", "--ttl=20", "--", "sh", "-c", "exit 3")
    p.ctl("get", "--prefix", "name", "-w", "json")
    first = p.start("lock", "name")
    first.until(1)
    second = p.start("lock", "name")
    second.silent(1)
    p.ctl("get", "--prefix", "name", "--keys-only", unordered=True)
    first.interrupt()
    second.until(1)
    second.interrupt()
    p.ctl("get", "--prefix", "name")


def elect(p: Player) -> None:
    listener = p.start("elect", "-l", "office")
    first = p.start("elect", "office", "proposal one")
    first.until(2)
    listener.until(2)
    second = p.start("elect", "office", "proposal two")
    second.silent(1)
    first.interrupt()
    second.until(2)
    listener.until(2)
    p.ctl("get", "--prefix", "office")
    second.interrupt()
    poll("the office is empty", 20, lambda: not p.cluster.ask("get", "--prefix", "office"))
    listener.interrupt()
    p.ctl("elect", "office")


CASES: dict[str, Callable[[Player], None]] = {
    "put": put,
    "get": get,
    "del": delete,
    "txn": txn,
    "watch": watch,
    "watch-interactive": watch_interactive,
    "watch-progress-notify": watch_progress,
    "lease": lease,
    "lease-list": lease_list,
    "lease-expires": lease_expires,
    "lock": lock,
    "elect": elect,
}
