"""Under which key a run's samples are kept: all that decides its numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from upstream.download import hash_file
from validate.drivers import describe_drivers
from validate.machine import machine_fingerprint
from validate.models import open_model
from validate.sample_store import SessionKey
from validate.speculation.arms import SpecArm
from validate.speculation.measure import Setting

METHOD = 2  # raise it when equal settings begin to give other numbers


def make_key(
    setting: Setting, arms: Iterable[SpecArm], what: object, seed: int, run: int = 1
) -> SessionKey:
    """The key of a run; `what` is said or planned beside the arms (JSON), `run` 2 confirms it.

    Of a device the drivers count too: the same program is another one with them.
    """
    listed = list(arms)
    files = sorted(p for p in setting.server.resolve().parent.glob("*.so*") if p.is_file())
    server = " ".join(hash_file(path) for path in [setting.server, *files])
    shared = asdict(setting) | {"server": "", "target": "", "port": None, "health_seconds": 0}
    drafters = {arm.drafter.path for arm in listed if arm.drafter and arm.drafter.path}
    drivers = {} if setting.device == "cpu" else describe_drivers()
    document = [METHOD, shared, what, [asdict(arm) for arm in listed], drivers]
    return SessionKey(
        parent="llama-server",
        step="speculation",
        binaries=(server, ""),
        toolchain="",
        machine=machine_fingerprint(),
        model=" ".join(_hash_model(p) for p in [setting.target, *sorted(drafters)]),
        setting=json.dumps(document, default=str),
        seed=seed,
        run=run,
    )


def _hash_model(path: Path) -> str:
    return open_model(path).sha256
