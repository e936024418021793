"""The result of a check that judges rows, each with a `case` and whether it `passed`."""

from __future__ import annotations

import json
import sys
from typing import Any

PASS, FAIL = 0, 1


def report_rows(check: str, rows: list[dict[str, Any]], reason: str = "") -> int:
    """Write the only output of the program, and give the exit status; no row is no pass."""
    passed = bool(rows) and all(row["passed"] for row in rows)
    document = {"check": check, "cases": len(rows), "passed": passed, "detail": rows}
    document |= {"reason": reason} if reason else {}
    sys.stdout.write(json.dumps(document, indent=1) + "\n")
    return PASS if passed else FAIL
