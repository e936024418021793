"""Synthetic acceptance: what share of drafted tokens a server accepts, whatever they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upstream.errors import UsageError

CONSTANT = ("0", ".3", ".5", ".7", ".85", ".95")
# The share of drafts whose first i + 1 tokens are all accepted, as an MTP head has it.
MTP = (0.75, 0.62, 0.5, 0.42, 0.36, 0.3, 0.26)
ALL, OWN = "all", "own"


@dataclass(frozen=True)
class Acceptance:
    """`share`: of each position given that all before it were accepted; None is the MTP profile."""

    name: str
    share: float | None

    @property
    def is_vain(self) -> bool:
        """Whether no drafted token is ever accepted."""
        return self.share == 0

    def rates(self, longest: int) -> tuple[float, ...]:
        """Entry i: the share of drafts whose first i + 1 tokens are all accepted.

        Beyond its end the MTP profile goes on falling as it did last.
        """
        if self.share is not None:
            return tuple(self.share**n for n in range(1, longest + 1))
        fall = MTP[-1] / MTP[-2]
        rest = (MTP[-1] * fall**n for n in range(1, longest - len(MTP) + 1))
        return (*MTP, *rest)[:longest]


PROFILES = (*(Acceptance(f"p={text}", float(text)) for text in CONSTANT), Acceptance("mtp", None))


def parse_acceptance(texts: Sequence[str]) -> tuple[Acceptance | None, ...]:
    """`all`, `own` (None), `mtp`, or shares from 0 to 1, comma-separated or one an option.

    Raises UsageError for anything else.
    """
    names = [part for text in texts for part in text.split(",")]
    if names == [ALL]:
        return PROFILES
    return tuple(dict.fromkeys(map(_parse, names)))


def _parse(text: str) -> Acceptance | None:
    if text == OWN:
        return None
    if text == "mtp":
        return PROFILES[-1]
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(
            f"no acceptance {text!r}", remedy="name all, own, mtp, or a share from 0 to 1: .95"
        )
    return Acceptance(f"p={share:g}".replace("=0.", "=."), share)


def parse_temperatures(text: str) -> tuple[tuple[float, ...], ...]:
    """`0,1.5`: of two slots; `0/1.5`: of the questions in one slot, in turns.

    Raises UsageError for what are no temperatures.
    """
    try:
        found = tuple(tuple(map(float, slot.split("/"))) for slot in text.split(",") if text)
    except ValueError:
        found = ((-1.0,),)
    if any(not 0 <= each <= 10 for slot in found for each in slot):
        raise UsageError(f"{text!r} are no temperatures", remedy="name numbers: 0,1.5 or 0/1.5")
    return found
