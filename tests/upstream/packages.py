"""Small source packages, laid out as the real ones, and the tree ids git gives their content."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

TOP = "thirdparty/llama.cpp"
PLAIN = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "T",
    "GIT_AUTHOR_EMAIL": "t@localhost",
    "GIT_COMMITTER_NAME": "T",
    "GIT_COMMITTER_EMAIL": "t@localhost",
}


def tree_files(build: int) -> dict[str, bytes]:
    """A few files that differ from build to build."""
    return {
        "README.md": b"llama.cpp\n",
        "src/llama.cpp": f"int build = {build};\n".encode(),
        "src/crlf.txt": b"one\r\ntwo\r\n",
        "ci/run.sh": b"#!/bin/sh\n",
    }


def regular(name: str, content: bytes = b"", mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    return member, content


def special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""


def make_tar(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz", encoding="utf-8", compresslevel=1) as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    return sink.getvalue()


def make_sdist(version: str, files: Mapping[str, bytes]) -> bytes:
    """A package with an upstream tree; run.sh is executable, and it has a submodule's .git file."""
    top = f"xllamacpp-{version}"
    members = [regular(f"{top}/setup.py", b"raise SystemExit('nothing here may be run')\n")]
    members += [regular(f"{top}/{TOP}/.git", b"gitdir: ../../.git/modules/llama.cpp\n")]
    members += [special(f"{top}/{TOP}", tarfile.DIRTYPE)]
    for name, content in files.items():
        mode = 0o755 if name.endswith(".sh") else 0o644
        members.append(regular(f"{top}/{TOP}/{name}", content, mode))
    return make_tar(members)


def run_git(folder: Path, *args: str) -> str:
    command = ("git", "-C", os.fspath(folder), *args)
    done = subprocess.run(command, env=PLAIN, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def expected_tree(folder: Path, files: Mapping[str, bytes]) -> str:
    """The tree id that plain git gives the same files."""
    folder.mkdir()
    run_git(folder, "init", "-q")
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if name.endswith(".sh") else 0o644)
    run_git(folder, "add", "-f", ".")
    return run_git(folder, "write-tree")
