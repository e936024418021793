"""Static ledgers: ids, constants and layouts that must agree, read from a git tree without a build.

`read_ledger` extracts, `find_faults` judges one tree, `compare_ledgers` two. The method and its
limits: docs/reference/ledgers.md.
"""

from validate.ledger.check import check_ledgers
from validate.ledger.diff import compare_ledgers
from validate.ledger.faults import find_faults
from validate.ledger.model import Change, Fault, Ledger
from validate.ledger.read import read_ledger

__all__ = [
    "Change",
    "Fault",
    "Ledger",
    "check_ledgers",
    "compare_ledgers",
    "find_faults",
    "read_ledger",
]
