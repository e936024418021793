"""What is compared: drafters with fixed lengths, the adaptive length, and no drafter at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from upstream.errors import UsageError

TYPES = ("draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark")
WITHIN_TARGET = "draft-mtp"  # the only one that needs no file of its own
REMEDY = "see docs/how-to/choose-a-draft-length.md"


@dataclass(frozen=True)
class Drafter:
    """A type of speculation and its file; None where the target carries it (MTP).

    `label` tells two of one type apart.
    """

    type: str
    path: Path | None = None
    label: str = ""

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"{self.type.removeprefix('draft-')} {self.label}".rstrip()


@dataclass(frozen=True)
class SpecArm:
    """One configuration of the server. Without a drafter: no speculation.

    `limit` is the longest draft (tokens), `adaptive` chooses between n_min and it. `rates` are
    unconditional synthetic acceptances, one for each position up to `limit`, or empty.
    """

    drafter: Drafter | None = None
    limit: int = 0
    adaptive: bool = False
    n_min: int = 0
    rates: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        if self.drafter is None:
            return "none"
        return f"{self.drafter.name} {'adaptive' if self.adaptive else self.limit}"

    def options(self) -> list[str]:
        """The options of llama-server.

        A length of 0 does not turn drafting off upstream, so no speculation is no drafter.
        """
        if self.drafter is None:
            return []
        words = ["--spec-type", self.drafter.type, "--spec-draft-n-max", str(self.limit)]
        words += ["--spec-draft-n-min", str(self.n_min)] if self.n_min else []
        words += ["-md", str(self.drafter.path)] if self.drafter.path else []
        words += ["--spec-draft-adaptive"] if self.adaptive else []
        rates = ",".join(f"{rate:g}" for rate in self.rates)
        return words + (["--spec-synth-rates", rates] if rates else [])


def parse_drafter(text: str) -> Drafter:
    """`TYPE=FILE`, or `mtp` alone. Raises UsageError for another type or a missing file."""
    kind, _, file = text.partition("=")
    kind = kind if kind.startswith("draft-") else f"draft-{kind}"
    if kind not in TYPES:
        raise UsageError(f"no drafter {text!r}: the types are {', '.join(TYPES)}", remedy=REMEDY)
    if not file and kind != WITHIN_TARGET:
        raise UsageError(
            f"{kind} needs the file of its model", remedy=f"name it: --drafter {kind}=FILE.gguf"
        )
    path = Path(file).absolute() if file else None
    if path and not path.is_file():
        raise UsageError(f"there is no drafter {path}", remedy="name a .gguf file")
    return Drafter(kind, path)


def label_drafters(drafters: Sequence[Drafter]) -> list[Drafter]:
    """Those that share their type, called after their files too."""
    types = [drafter.type for drafter in drafters]
    return [
        replace(each, label=each.path.stem)
        if each.path and not each.label and types.count(each.type) > 1
        else each
        for each in drafters
    ]


def parse_lengths(text: str) -> tuple[int, ...]:
    """`1,2,3,5`. Raises UsageError for anything but positive numbers."""
    try:
        lengths = sorted({int(part) for part in text.split(",")})
    except ValueError:
        lengths = [0]
    if lengths[0] < 1:
        raise UsageError(
            f"{text!r} are no draft lengths", remedy="name positive numbers: --lengths 1,2,3,5,7"
        )
    return tuple(lengths)


def parse_rates(text: str, longest: int) -> tuple[float, ...]:
    """Synthetic acceptances, entry i: the first i + 1 tokens are all accepted.

    Raises UsageError unless there is one for each position, in [0, 1], none above the one before.
    """
    try:
        rates = tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise UsageError(f"{text!r} are no rates", remedy="name numbers: .8,.64,.5") from None
    if rates and len(rates) != longest:
        raise UsageError(
            f"{len(rates)} synthetic rates for drafts of up to {longest} tokens",
            remedy=f"name {longest} rates, one for each position",
        )
    falling = all(a >= b for a, b in pairwise(rates))
    if not falling or not all(0 <= rate <= 1 for rate in rates):
        raise UsageError(
            f"the rates {text} must lie in 0 to 1 and never rise",
            remedy="entry i is the share of drafts whose first i + 1 tokens are all accepted",
        )
    return rates


def list_arms(
    drafters: Sequence[Drafter],
    lengths: Sequence[int],
    *,
    adaptive: bool = True,
    n_min: int = 0,
    rates: tuple[float, ...] = (),
) -> tuple[SpecArm, ...]:
    """All arms of a matrix, no speculation first. Raises UsageError where they make no sense."""
    if not drafters:
        raise UsageError(
            "there is nothing to draft with: no drafter was named",
            remedy="name one: --drafter TYPE=FILE.gguf, or --drafter mtp",
        )
    if n_min > min(lengths):
        raise UsageError(
            f"n_min {n_min} is above the length {min(lengths)}",
            remedy="lower --n-min, or name longer --lengths",
        )
    names = [drafter.name for drafter in drafters]
    if len(set(names)) != len(names):
        raise UsageError(f"two drafters are called the same: {', '.join(names)}", remedy=REMEDY)
    return (SpecArm(), *_list_drafting(drafters, lengths, adaptive, n_min, rates))


def _list_drafting(
    drafters: Sequence[Drafter],
    lengths: Sequence[int],
    adaptive: bool,
    n_min: int,
    rates: tuple[float, ...],
) -> Iterator[SpecArm]:
    for drafter in drafters:
        for length in lengths:
            yield SpecArm(drafter, length, n_min=n_min, rates=rates[:length])
        if adaptive:
            yield SpecArm(drafter, max(lengths), True, n_min, rates)
