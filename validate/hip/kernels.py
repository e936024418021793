"""A kernel of ggml-cuda, and its counterpart in another tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

WHOLE_FILE = ""  # the symbol that stands for a file that does not compile


@dataclass(frozen=True)
class Kernel:
    """One kernel: the file below ggml/src/ggml-cuda, its symbol and what people call it."""

    file: str
    symbol: str
    name: str

    @property
    def label(self) -> str:
        return f"{self.file} {self.name}".rstrip()

    @property
    def family(self) -> str:
        return "kernel"

    @property
    def shader(self) -> str:
        """Where it comes from, as for pipelines."""
        return self.file

    @property
    def spec(self) -> tuple[int, ...]:
        """Template arguments are in the name."""
        return ()


@dataclass(frozen=True)
class KernelPair:
    """A kernel of a step and its counterpart; None where there is none."""

    before: Kernel | None
    after: Kernel | None

    @property
    def variant(self) -> Kernel:
        found = self.after or self.before
        assert found is not None
        return found


def name_kernels(file: str, names: Mapping[str, str]) -> list[Kernel]:
    """The kernels of a file from demangled names by symbol."""
    return [Kernel(file, symbol, shorten(name)) for symbol, name in names.items()]


def pair_kernels(before: Sequence[Kernel], after: Sequence[Kernel]) -> list[KernelPair]:
    """All kernels of two sides, first by symbol; what is left by name where that is unique.

    So a kernel whose parameters changed keeps its counterpart.
    """
    by_symbol = {each.symbol: each for each in before}
    found = {each: by_symbol[each.symbol] for each in after if each.symbol in by_symbol}
    left = _unique(set(before) - set(found.values()))
    for name, each in _unique(set(after) - set(found)).items():
        if name in left:
            found[each] = left[name]
    kept = set(found.values())
    pairs = [KernelPair(found.get(each), each) for each in after]
    return pairs + [KernelPair(each, None) for each in before if each not in kept]


def _unique(kernels: Iterable[Kernel]) -> dict[str, Kernel]:
    kernels = list(kernels)
    count = Counter(each.name for each in kernels)
    return {each.name: each for each in kernels if count[each.name] == 1}


def shorten(name: str) -> str:
    """`void f<(ggml_type)2, true>(float const*)` as `f<(ggml_type)2, true>`."""
    angles = parentheses = 0
    for at, letter in enumerate(name):
        if letter == "(" and not angles and not parentheses and at > 0:
            return name[:at].removeprefix("void ")
        parentheses += (letter == "(") - (letter == ")")
        if not parentheses:  # inside them a bracket compares
            angles += (letter == "<") - (letter == ">")
    return name.removeprefix("void ")
