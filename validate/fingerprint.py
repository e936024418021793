"""What a report says about where it was made: upstream, machine, toolchain."""

from __future__ import annotations

import hashlib
import platform
import re
import time

from series.model import Stack
from upstream.git import Git, git_version
from upstream.store import read_held
from validate.build import Builder
from validate.machine import describe_machine, machine_fingerprint
from validate.report_model import Header
from validate.room import Room

_MARCH = re.compile(r"-march=([\w.+-]+)")


def describe_run(builder: Builder, stack: Stack, room: Room) -> Header:
    """The header of a report that is made now."""
    return Header(
        upstream=str(stack.version),
        provider=describe_source(builder.git, stack),
        tip_tree=stack.tip_tree,
        date=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        machine=describe_machine()
        | {"Python": platform.python_version(), "git": ".".join(map(str, git_version()))}
        | {"threads of the programs": str(room.threads)}
        | {"fingerprint of the machine": machine_fingerprint()[:16]},
        toolchain=describe_toolchain(builder) | {"model": describe_model(room)},
        backends=(builder.recipe.backend.name,),
    )


def describe_source(git: Git, stack: Stack) -> str:
    """Where the upstream source came from: the git remote, or a package and its version."""
    held = read_held(git).get(stack.version)
    if held is None or held.commit != stack.commit:
        return "unknown"
    return "git remote" if held.snapshot is None else f"package {held.origin}"


def describe_toolchain(builder: Builder) -> dict[str, str]:
    """Programs of the build and its options; the fingerprint stands for all that they produce."""
    identity = builder.toolchain.identity
    lines = identity.splitlines()
    name = builder.toolchain.cxx.name
    native = (word for word in _MARCH.findall(identity) if word != "native")
    return {
        "C compiler": lines[0],
        "C++ compiler": next((line for line in lines if line.startswith(name)), name),
        "-march=native means": next(native, "unknown"),
        "build system": lines[-1],
        "options": ", ".join(builder.recipe.entries),
        "fingerprint of compilers, flags and cmake": hashlib.sha256(identity.encode()).hexdigest()[
            :16
        ],
    }


def describe_model(room: Room) -> str:
    """The model file and the hash that it is known by."""
    return f"{room.model.name} (sha256 {room.model.sha256[:16]})"
