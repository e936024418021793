"""A 27B model with a DFlash2-shaped drafter on a GPU: the whole curve of draft lengths, and adaptive.

    python docs/evidence/speculation/gpu.py SERVER TARGET DRAFTER[,DRAFTER] DEVICE SECONDS OUT [LENGTHS [LONGEST]]

The first drafter that llama-server can draft with is taken. LENGTHS (1,2,3) are the fixed ones of the curve, LONGEST
(7,15) the bounds of adaptive, an arm each.

At p = .95 every length of the curve, no speculation and adaptive, each in a random order and its mirror image,
then adaptive and no speculation at p = .7 and 0, then as many quads of adaptive against the best length as fit.
OUT gets one JSON line a server, and one a verdict. Every answer has 256 tokens; the text is no text.
"""

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median

sys.path.insert(0, os.fspath(Path(__file__).parents[3]))

from upstream.errors import InvalidMeasurement
from upstream.lab import Lab
from validate.speculation.acceptance import PROFILES
from validate.speculation.arms import Drafter, SpecArm
from validate.speculation.client import total_speed
from validate.speculation.measure import Setting, measure_arm
from validate.speculation.server import ServerFault

LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15)
LONGEST = (15,)


class Bench:
    def __init__(self, setting: Setting, lab: Lab, out: Path, end: float) -> None:
        self.setting, self.lab, self.out, self.end = setting, lab, out, end
        self.found: dict[tuple[str, str], list[float]] = {}
        self.longest = 0.0

    def take(self, acceptance, arm: SpecArm, seed: int) -> bool:
        started = time.monotonic()
        if started + self.longest > self.end:
            return False
        talks = measure_arm(self.setting, arm, {"x": ["Go on."]}, self.lab, f"{acceptance.name}-{seed}", seed)["x"]
        (turn,) = talks[0]
        speed = total_speed(talks)
        self.found.setdefault((acceptance.name, arm.name), []).append(speed)
        self.longest = time.monotonic() - started
        line = {
            "acceptance": acceptance.name, "arm": arm.name, "speed": speed, "tokens": turn.tokens,
            "drafted": turn.drafted, "accepted": turn.accepted, "rounds": len(turn.rounds),
            "lengths": [each.drafted for each in turn.rounds], "seed": seed,
            "seconds": time.monotonic() - started,
        }  # fmt: skip
        self.write(line)
        print(f"{acceptance.name:8}{arm.name:22}{speed:8.1f} tok/s  accepted {turn.accepted} of {turn.drafted}", flush=True)
        return True

    def write(self, line: dict) -> None:
        with self.out.open("a") as file:
            file.write(json.dumps(line) + "\n")


def choose_drafter(bench: Bench, files: list[Path]) -> Drafter:
    for file in files:
        drafter = Drafter("draft-dflash", file)
        try:
            bench.take(PROFILES[5], SpecArm(drafter, 1, rates=(0.95,)), 0)
        except (ServerFault, InvalidMeasurement) as error:
            print(f"{file.name}: {error}", flush=True)
            continue
        bench.write({"drafter": file.name})
        return drafter
    raise SystemExit("no drafter works")


def arms_of(drafter: Drafter, acceptance, lengths, longest) -> list[SpecArm]:
    fixed = [SpecArm(drafter, n, rates=acceptance.rates(n)) for n in lengths]
    bounded = [(replace(drafter, label=f"up to {n},"), n) for n in longest]
    adaptive = [SpecArm(each, n, adaptive=True, rates=acceptance.rates(n)) for each, n in bounded]
    return [SpecArm(), *fixed, *adaptive]


def mirrored(bench: Bench, acceptance, arms: list[SpecArm], seed: int) -> None:
    order = list(arms)
    Random(seed).shuffle(order)
    for arm in order + order[::-1]:
        if not bench.take(acceptance, arm, seed):
            return


def main() -> None:
    server, target, drafters, device, seconds, out, *rest = sys.argv[1:]
    lengths = tuple(map(int, rest[0].split(","))) if rest else LENGTHS
    longest = tuple(map(int, rest[1].split(","))) if len(rest) > 1 else LONGEST
    lab = Lab(Path(out).absolute().parent / "lab")
    lab.root.mkdir(parents=True, exist_ok=True)
    setting = Setting(
        Path(server), Path(target), device, 4, n_predict=256, context=4096, warm_up=128, endless=True
    )
    bench = Bench(setting, lab, Path(out), time.monotonic() + float(seconds))
    high, middle, none = PROFILES[5], PROFILES[3], PROFILES[0]
    bench.take(high, SpecArm(), 0)  # compiles pipelines, fills caches
    block = choose_drafter(bench, [Path(name) for name in drafters.split(",")])
    bench.found.clear()
    everything = arms_of(block, high, lengths, longest)
    adaptive = everything[-len(longest) :]
    mirrored(bench, high, everything, 1)
    speeds = {arm.name: median(bench.found.get((high.name, arm.name), [0.0])) for arm in everything}
    best = max(everything[: -len(longest)], key=lambda arm: speeds[arm.name])
    print("best fixed:", best.name, {name: round(speed, 1) for name, speed in speeds.items()}, flush=True)
    for acceptance in (none, middle):
        mirrored(bench, acceptance, arms_of(block, acceptance, (4,), longest), 2)
    for seed in range(3, 100):
        mirrored(bench, high, [SpecArm(), best, *adaptive], seed)
        if time.monotonic() + bench.longest > bench.end:
            break
    later = {
        arm.name: median(bench.found.get((high.name, arm.name), [])[2:] or [0.0])
        for arm in (SpecArm(), best, *adaptive)
    }
    bench.write({"best": best.name, "chosen by": speeds, "afterwards": later})
    print("afterwards:", later)


if __name__ == "__main__":
    main()
