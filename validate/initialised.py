"""What a changed function of ggml leaves in memory: it is called, in both builds, and looked at.

`ggml_cpu_init` fills the tables that all operations read. One more table changes its code; whether
the others have the same bytes afterwards can be seen.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from upstream import process
from upstream.errors import CommandError
from validate.object_code import Code
from validate.room import clean

INITIALISERS = ("ggml_cpu_init",)
SECONDS = 60.0
PROGRAM = """
import ctypes, hashlib, json, sys
function = getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])
function()
start = ctypes.cast(function, ctypes.c_void_p).value
for name, (distance, size) in json.loads(sys.argv[3]).items():
    print(name, hashlib.sha256(ctypes.string_at(start + distance, size)).hexdigest())
"""


def leaves_the_same(name: str, before: Code, after: Code) -> bool:
    """Whether it calls no more than it did, and all objects that either names have equal bytes."""
    was, now = (_find_refers(name, code) for code in (before, after))
    if not was or not now - was <= {*after.objects} - {*before.objects}:
        return False
    objects = sorted((was | now) & {*before.objects})
    said = [_call(name, code, objects) for code in (before, after)]
    return said[0] is not None and said[0] == said[1]


def _find_refers(name: str, code: Code) -> frozenset[str]:
    items = code.functions.get(name, ())
    return items[0].refers if len(items) == 1 else frozenset()


def _call(name: str, code: Code, objects: Sequence[str]) -> str | None:
    """A line an object; None when one is elsewhere or the library can't be loaded."""
    library, function = code.places[name]
    found = {each: code.places[each] for each in objects if each in code.places}
    if len(found) != len(objects) or any(path != library for path, _ in found.values()):
        return None
    places = {each: (mine.start - function.start, mine.size) for each, (_, mine) in found.items()}
    command = (sys.executable, "-c", PROGRAM, library, name, json.dumps(places))
    try:
        return process.run(command, env=clean(os.environ), timeout=SECONDS).text
    except CommandError:
        return None
