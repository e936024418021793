"""An upstream in which every way that a patch can end is planted once.

b100 is where the patches are made; each file carries one case.
"""

from __future__ import annotations

from tests.series.miniature import Files, Miniature, lines

NAMES = (
    "exact",
    "reword",
    "half",
    "back",
    "clash",
    "moved",
    "both",
    "trap",
    "torn",
    "twice",
    "off",
)
BLOCK = "if (ready) {\n    prepare(one, two);\n    commit_all(three);\n    release(four);\n}"
OTHER = BLOCK.replace("release(four)", "release_all(four, five)")
FUNCTION = "void step() {\n    begin();\n    work(old);\n    finish();\n    leave();\n}\n"
FIXED = FUNCTION.replace("work(old)", "work(new_way)")


def change(name: str, **places: str) -> str:
    """The numbered lines of a file with some replaced: l5="text"."""
    return lines(name, changes={int(at[1:]): text for at, text in places.items()})


def after(name: str, *places: int, text: str = "") -> str:
    """The numbered lines with a block of its own after some of them."""
    return lines(name, changes={n: f"{name} line {n}\n{text or f'{name} new {n}'}" for n in places})


PATCHES: tuple[tuple[str, Files], ...] = (
    ("exact.patch", {"src/exact.c": change("exact", l9="exact line 9 fixed")}),
    ("reword.patch", {"src/reword.c": after("reword", 12, text=BLOCK)}),
    ("half.patch", {"src/half.c": after("half", 5, 20)}),
    ("back.patch", {"src/back.c": change("back", l9="back line 9 fixed")}),
    ("clash.patch", {"src/clash.c": change("clash", l15="clash line 15 ours")}),
    ("moved.patch", {"src/moved.c": change("moved", l10="moved line 10 ours")}),
    ("both.patch", {"src/both.c": change("both", l10="both line 10 ours")}),
    ("trap.patch", {"src/trap.c": lines("trap") + FIXED}),
    ("torn.patch", {"src/torn.c": after("torn", 10, 13)}),
    ("twice.patch", {"src/twice.c": after("twice", 10, text=BLOCK)}),
    ("off.patch", {"src/off.c": change("off", l20="off line 20 ours")}),
)


def plant(upstream: Miniature) -> None:
    """b100 the base, b200 with each case, b300 takes `back` back, b400 as b300 with news."""
    base = {f"src/{name}.c": lines(name) for name in NAMES}
    upstream.release("b100", base | {"src/trap.c": lines("trap") + FUNCTION})
    upstream.release(
        "b200",
        {
            "src/exact.c": change("exact", l9="exact line 9 fixed"),
            "src/reword.c": after("reword", 12, text=OTHER),
            "src/half.c": after("half", 5),
            "src/back.c": change("back", l9="back line 9 fixed"),
            "src/clash.c": change("clash", l15="clash line 15 theirs"),
            "lib/both.c": lines("both"),
            # the same context twice, with the fix in the new place only
            "src/trap.c": lines("trap").replace("trap line 3\n", f"trap line 3\n{FIXED}")
            + FUNCTION,
            "src/torn.c": after("torn", 10),
            "src/twice.c": after("twice", 25, text=BLOCK),
            "src/off.c": "news\n" + lines("off"),
        },
        renames={"src/moved.c": "lib/moved.c"},
    )
    upstream.release("b300", {"src/back.c": lines("back")})
