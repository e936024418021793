"""Plots as SVG inside the page: no script, sizes in user units, colours of the page's style."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from validate.speculation.client import Round
from validate.speculation.contest import Outcome
from validate.speculation.judge import NONE, drafter_of, gather_speeds, is_adaptive
from validate.speculation.tables import Run, acceptance_by_position, list_rounds

WIDTH, HEIGHT = 480, 240
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 26, 36
TICKS = 8
BINS = 120  # points of a curve over time


@dataclass(frozen=True)
class Frame:
    """A figure being drawn: x from 0 to `right`, y from 0 to `high`."""

    svg: ET.Element
    title: str
    right: float
    high: float

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / self.right

    def y(self, value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / self.high)

    def curve(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """A line through the points."""
        where = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        ET.SubElement(self.svg, "polyline", {"points": where, "class": kind})

    def dot(self, x: float, y: float, kind: str, title: str) -> None:
        """A point that tells what it is."""
        place = {"cx": f"{self.x(x):.1f}", "cy": f"{self.y(y):.1f}", "r": "4", "class": kind}
        ET.SubElement(ET.SubElement(self.svg, "circle", place), "title").text = title

    def level(self, y: float, kind: str, label: str) -> None:
        """A horizontal line with its name."""
        self.curve([(0, y), (self.right, y)], kind)
        _text(self.svg, WIDTH - RIGHT, self.y(y) - 4, label, "end")

    def __str__(self) -> str:
        figure = ET.Element("figure")
        ET.SubElement(figure, "figcaption").text = self.title
        figure.append(self.svg)
        return ET.tostring(figure, encoding="unicode")


def open_frame(title: str, across: str, up: str, right: float, high: float) -> Frame:
    """An empty plot with its axes, from 0 on."""
    box = {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "class": "plot", "role": "img"}
    svg = ET.Element("svg", box | {"aria-label": title})
    frame = Frame(svg, title, max(right, 1), high if high > 0 else 1)
    for part in range(5):
        value = frame.high * part / 4
        frame.curve([(0, value), (frame.right, value)], "grid")
        _text(svg, LEFT - 6, frame.y(value) + 4, f"{value:.3g}", "end")
    step = max(1, round(frame.right / TICKS))
    for place in range(0, int(frame.right) + 1, step):
        _text(svg, frame.x(place), HEIGHT - BOTTOM + 16, str(place), "middle")
    _text(svg, (LEFT + WIDTH) / 2, HEIGHT - 4, across, "middle")
    _text(svg, 2, 11, up, "start")
    return frame


@dataclass(frozen=True)
class Curve:
    """Tok/s by fixed length, of no speculation, and of adaptive with its mean length, by name."""

    title: str
    fixed: Mapping[int, float]
    none: float
    adaptive: Mapping[str, tuple[float, float]]


def draw_curve(curve: Curve) -> str:
    """Goodput against draft length, with no speculation, the adaptive point and the best fixed."""
    highest = max(*curve.fixed.values(), curve.none, *(y for _, y in curve.adaptive.values()), 0)
    longest = max(curve.fixed)
    frame = open_frame(curve.title, "draft length, tokens", "tok/s", longest, 1.1 * highest)
    frame.level(curve.none, "none", "no speculation")
    frame.curve(sorted(curve.fixed.items()), "fixed")
    best = max(curve.fixed, key=lambda length: curve.fixed[length])
    for length, speed in sorted(curve.fixed.items()):
        kind = "fixed best" if length == best else "fixed"
        name = "best fixed length" if length == best else "length"
        frame.dot(length, speed, kind, f"{name} {length}: {speed:.1f} tok/s")
    for name, (mean_length, speed) in curve.adaptive.items():
        said = f"{name}, mean length {mean_length:.1f}: {speed:.1f} tok/s"
        frame.dot(min(mean_length, frame.right), speed, "adaptive", said)
    return str(frame)


def draw_goodput(run: Run, conversation: str, drafter: str) -> str:
    """The curve of one drafter in one conversation, medians over all servers."""
    speeds = {a: median(s.values()) for a, s in gather_speeds(run.taken, conversation).items()}
    mine = [arm for arm in speeds if drafter_of(arm) == drafter]
    fixed = {int(a.rpartition(" ")[2]): speeds[a] for a in mine if not is_adaptive(a)}
    adaptive = {
        arm: (_mean_length(list_rounds(run, arm, conversation)), speeds[arm])
        for arm in mine
        if is_adaptive(arm)
    }
    title = f"Goodput of {drafter} in {conversation}"
    return draw_curve(Curve(title, fixed, speeds[NONE], adaptive))


def draw_contest(outcome: Outcome) -> str:
    """The curve that a contest's fixed length was chosen by, and adaptive in the comparison."""
    adaptive = {"adaptive": (outcome.mean_length, outcome.adaptive)} if outcome.adaptive else {}
    title = f"Goodput of {outcome.contest.name}, {outcome.slots} slots"
    return draw_curve(Curve(title, outcome.curve, outcome.curve[0], adaptive))


def draw_acceptance(run: Run, arm: str) -> str:
    """The accepted share by position, of drafts that were accepted up to it."""
    shares = acceptance_by_position(list_rounds(run, arm))
    frame = open_frame(f"Acceptance of {arm}", "position", "accepted share", len(shares), 1)
    frame.curve([(n, share) for n, (share, _) in enumerate(shares, 1)], "fixed")
    for number, (share, trials) in enumerate(shares, 1):
        frame.dot(number, share, "fixed", f"position {number}: {share:.1%} of {trials}")
    return str(frame)


def draw_lengths(run: Run, arm: str, conversation: str) -> str:
    """The drafted length over the rounds of the first server, averaged in bins."""
    talk = next(each for each in run.taken if each.arm == arm).turns[conversation][0]
    rounds = [each.drafted for turn in talk for each in turn.rounds]
    width = max(1, math.ceil(len(rounds) / BINS))
    points = [(n, mean(rounds[n : n + width])) for n in range(0, len(rounds), width)]
    frame = open_frame(
        f"Draft length of {arm} in {conversation}",
        "round",
        "tokens drafted",
        len(rounds),
        max(rounds, default=1),
    )
    frame.curve(points, "adaptive")
    return str(frame)


def _mean_length(rounds: Sequence[Round]) -> float:
    return mean(each.drafted for each in rounds) if rounds else 0.0


def _text(parent: ET.Element, x: float, y: float, text: str, anchor: str) -> None:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}
    ET.SubElement(parent, "text", place).text = text
