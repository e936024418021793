"""Which file types are compared, and how llama-quantize is asked for each.

--pure gives every weight matrix the one type, so that types are compared and not recipes. Q4_K_S
and STRIX_LEAN are recipes and stay what their names say. NVFP4 is no file type of llama-quantize:
its matrices are named one by one. Rows that a type cannot divide fall back to another type, which
the census of the file tells.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from upstream.errors import InvalidMeasurement, UsageError
from validate.artifacts import StepBinaries
from validate.room import Room

TARGET = "llama-quantize"
PURE = ("--pure",)
_HEAD = "allowed quantization types"
_LISTED = re.compile(r"^\s*\d+\s+or\s+(\S+)\s*:", re.MULTILINE)


@dataclass(frozen=True)
class Scheme:
    """One row of the tables. `asked` is llama-quantize's name of the file type; `upstream`: the
    encoder is that of the base, whatever the stack makes of it.
    """

    name: str
    asked: str
    options: tuple[str, ...] = PURE
    upstream: bool = False

    @property
    def how(self) -> str:
        """The command's words that choose the type."""
        return " ".join((*self.options, self.asked))

    @property
    def slug(self) -> str:
        """The name as a part of file names."""
        return re.sub(r"[^A-Za-z0-9_]+", "-", self.name).strip("-")


_NVFP4 = ("--pure", "--tensor-type", ".=nvfp4")
BASELINE = Scheme("Q4_0", "Q4_0")
SCHEMES = (
    BASELINE,
    Scheme("IQ4_NL", "IQ4_NL"),
    Scheme("IQ4_XS", "IQ4_XS"),
    Scheme("Q4_K_S", "Q4_K_S", ()),
    Scheme("MXFP4", "MXFP4_MOE"),
    Scheme("NVFP4 (upstream)", "Q4_0", _NVFP4, upstream=True),
    Scheme("NVFP4", "Q4_0", _NVFP4),
    Scheme("Q4_0_ROCMFP4", "Q4_0_ROCMFP4"),
    Scheme("Q4_0_ROCMFP4_FAST", "Q4_0_ROCMFP4_FAST"),
    Scheme("Q4_0_ROCMFP4_STRIX_LEAN", "Q4_0_ROCMFP4_STRIX_LEAN", ()),
)


def list_known(room: Room, binaries: StepBinaries) -> frozenset[str]:
    """The file types that a step's llama-quantize lists.

    Raises InvalidMeasurement when it lists none.
    """
    said = room.run(binaries, TARGET, "--help").text
    known = frozenset(_LISTED.findall(said.partition(_HEAD)[2]))
    if not known:
        raise InvalidMeasurement(
            f"{TARGET} --help lists no file type", remedy="look at its output and mend the reader"
        )
    return known


def require_names(named: Sequence[str]) -> None:
    """Raise UsageError for a name that is none of the comparison's."""
    names = [scheme.name for scheme in SCHEMES]
    for name in named:
        if name not in names:
            raise UsageError(
                f"there is no file type '{name}' in the comparison",
                remedy=f"take some of {', '.join(names)}",
            )


def choose(named: Sequence[str], known: Collection[str]) -> tuple[list[Scheme], list[Scheme]]:
    """The schemes to measure, the baseline first, and those left out: not known to the binary.

    Raises UsageError for a name that is none, or that was asked for and is not known.
    """
    require_names(named)
    wanted = [scheme for scheme in SCHEMES if not named or scheme.name in named]
    wanted = [BASELINE, *(scheme for scheme in wanted if scheme != BASELINE)]
    left_out = [scheme for scheme in wanted if scheme.asked not in known]
    if named and left_out:
        raise UsageError(
            f"the step's {TARGET} does not know {left_out[0].name}",
            remedy="build a stack with the topic that adds it, or leave it out",
        )
    return [scheme for scheme in wanted if scheme.asked in known], left_out
