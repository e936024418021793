"""What clang says about each kernel with `-Rpass-analysis=kernel-resource-usage`.

The remarks: https://clang.llvm.org/docs/AMDGPUSupport.html and LLVM's AMDGPUAsmPrinter.cpp
(emitResourceUsageRemarks). The unit of a number is in its name from LLVM 15 on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from upstream.errors import InvalidMeasurement
from validate.isa.statistics import Numbers

PASS = "kernel-resource-usage"  # noqa: S105
NAMES = {
    "sgprs": "SGPRs",
    "vgprs": "VGPRs",
    "spilled_vgprs": "VGPRs Spill",
    "spilled_sgprs": "SGPRs Spill",
    "scratch": "ScratchSize [bytes/lane]",
    "lds": "LDS Size [bytes/block]",
    "waves": "Occupancy [waves/SIMD]",
}
NEWER = "Total"  # of "TotalSGPRs", as clang 18 and later say it
# The place comes before the word where the source is known, after it for intermediate code.
_REMARK = re.compile(
    rf"remark:\s+(?:\S+:\d+:\d+:\s+)?(?P<name>[^:]+): (?P<value>\S+) \[-Rpass-analysis={PASS}\]$"
)


def parse_remarks(text: str) -> dict[str, Numbers]:
    """The numbers of each kernel by its symbol.

    Functions that are not inlined have remarks too, without LDS: they are left out. Raises
    InvalidMeasurement when a kernel lacks a number: another clang may say it in another way.
    """
    return {symbol: _read(symbol, said) for symbol, said in _blocks(text) if _is_kernel(said)}


def _blocks(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    symbol, said = "", dict[str, str]()
    for line in text.splitlines():
        found = _REMARK.search(line)
        if found is None:
            continue
        if found["name"] == "Function Name":
            if symbol:
                yield symbol, said
            symbol, said = found["value"], {}
        else:
            said[found["name"].removeprefix(NEWER)] = found["value"]
    if symbol:
        yield symbol, said


def _is_kernel(said: dict[str, str]) -> bool:
    return NAMES["lds"] in said


def _read(symbol: str, said: dict[str, str]) -> Numbers:
    try:
        found: dict[str, Any] = {key: int(said[name]) for key, name in NAMES.items()}
        return Numbers(**found, access={})
    except (KeyError, ValueError) as error:
        raise InvalidMeasurement(
            f"clang's remarks about {symbol} lack a number that we can read: {error}",
            remedy="compare its remarks with NAMES in validate/hip/remarks.py",
        ) from error
