"""Which shader source becomes which SPIR-V: the calls of `string_to_spv` in vulkan-shaders-gen.cpp.

The names are made in C++ (`"mul_mat_vec_" + tname + "_f32_f32"`), so each call becomes a pattern in
which a variable stands for the values that it is seen to take; what it took decides the source.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from validate.ledger.text import close_of, split_arguments, strip_comments

ANY = "[a-z0-9_]*?"
DEPTH = 6
_CALL = re.compile(r"\bstring_to_spv\s*\(")
_FUNCTION = re.compile(r"^\w[^\n;={}]*\([^;{}]*\)\s*\{", re.MULTILINE)
_KEY = re.compile(r'\{\s*"([A-Z]\w*)"\s*,')
_DICT = re.compile(r'\[\s*"([A-Z]\w*)"\s*\]')
_LOOP = r"for\s*\((?:[^:;()]|::)*?\b{name}\s*:\s*(?:(\{{[^}}]*\}})|(\w+))"
_SET = r"(?<![\w.])((?:const\s+)?(?:std::string|auto)\s+(?:const\s*)?&?\s*)?{name}\s*=(?!=)\s*"


@dataclass(frozen=True)
class Build:
    """A shader source, the macros that its build defines for sure, and those that it does not."""

    shader: str
    defines: tuple[str, ...]
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Rule:
    """One call: a pattern for names, the source's expression, the switches in the name."""

    pattern: re.Pattern[str]
    source: str
    position: int
    defines: tuple[str, ...]
    switches: tuple[str, str]


class Generator:
    """The calls of one tree's generator."""

    def __init__(self, text: str, shaders: Sequence[str]) -> None:
        self._text = strip_comments(text)
        self._shaders = shaders
        self._known: dict[str, tuple[Build, ...]] = {}
        self._loops: dict[str, list[tuple[int, list[str]]]] = {}
        self._sets: dict[str, list[tuple[int, bool, str]]] = {}
        self._functions = [match.start() for match in _FUNCTION.finditer(self._text)]
        self._rules = list(self._read())
        self._maybe = self._find_maybe()
        self.maybe = sorted(set().union(*self._maybe.values()))

    def builds(self, name: str) -> tuple[Build, ...]:
        """Every source that may be the SPIR-V of that name (without `_data`); () when none is."""
        if name not in self._known:
            self._known[name] = tuple(dict.fromkeys(self._match(_plain(name))))
        return self._known[name]

    @property
    def rules(self) -> int:
        """How many calls were read."""
        return len(self._rules)

    def _match(self, name: str) -> Iterator[Build]:
        matched = [(rule, m) for rule in self._rules if (m := rule.pattern.fullmatch(name))]
        exact = [pair for pair in matched if ANY not in pair[0].pattern.pattern]
        for rule, found in exact or matched:
            cm1, cm2 = rule.switches
            chosen = {cm1: "_cm1" in name, cm2: "_cm2" in name} if cm2 else {}
            values = {k: v for k, v in found.groupdict().items() if v is not None}
            source = self._pattern(rule.source, rule.position, values, chosen, DEPTH)
            more, others = self._companions(values, rule.position)
            without = tuple(sorted(others | self._not_here(rule.position)))
            for shader in self._shaders:
                if re.fullmatch(source, shader):
                    yield Build(shader, tuple(sorted({*rule.defines, *more})), without)

    def _companions(self, values: Mapping[str, str], position: int) -> tuple[set[str], set[str]]:
        """Macros set in the same inner block as a variable's value, and those of its other values.

        `if (id) { base_dict["MUL_MAT_ID"] = "1"; shader_name = "matmul_id"; }`
        """
        mine: set[str] = set()
        others: set[str] = set()
        for name, value in values.items():
            for at, expression in self._assigned(name, position)[1:]:
                keys = set(_DICT.findall(self._block_around(at)))
                if expression.strip() == f'"{value}"':
                    mine |= keys
                else:
                    others |= keys
        return mine, others - mine

    def _block_around(self, position: int) -> str:
        """The innermost pair of braces around a place."""
        depth = 0
        for start in range(position - 1, -1, -1):
            depth += (self._text[start] == "}") - (self._text[start] == "{")
            if depth < 0:
                return self._text[start : close_of(self._text, start)]
        return ""

    def _read(self) -> Iterator[_Rule]:
        for call in _CALL.finditer(self._text):
            arguments = split_arguments(
                self._text[call.end() : close_of(self._text, call.end() - 1) - 1]
            )
            if len(arguments) < 3 or arguments[0].startswith("std::string "):
                continue  # the declaration
            name = self._pattern(arguments[0], call.start(), None, {}, DEPTH)
            switches = (arguments[4], arguments[5]) if len(arguments) > 5 else ("", "")
            tail = r"(?:_f16acc)?(?:_cm1)?(?:_cm2|_fp32)?(?:_int8)?"
            yield _Rule(
                re.compile(_once(name) + tail),
                arguments[1],
                call.start(),
                tuple(_KEY.findall(arguments[2])),
                switches,
            )

    def _find_maybe(self) -> dict[int, set[str]]:
        """The macros that the dictionaries of each function hold, by where the function begins."""
        calls = [(c.end(), close_of(self._text, c.end() - 1)) for c in _CALL.finditer(self._text)]
        found: dict[int, set[str]] = {}
        for match in (*_KEY.finditer(self._text), *_DICT.finditer(self._text)):
            if not any(start <= match.start() < end for start, end in calls):
                found.setdefault(self._function_of(match.start()), set()).add(match[1])
        return found

    def _function_of(self, position: int) -> int:
        """Where the function around a place begins; 0 outside of functions."""
        at = bisect_right(self._functions, position)
        return self._functions[at - 1] if at else 0

    def _not_here(self, position: int) -> set[str]:
        """Macros that builds of other functions may define, and those of this one do not."""
        return set(self.maybe) - self._maybe.get(self._function_of(position), set())

    # -- string expressions -------------------------------------------------------------------

    def _pattern(
        self,
        expression: str,
        position: int,
        values: Mapping[str, str] | None,
        chosen: Mapping[str, bool],
        depth: int,
    ) -> str:
        """A regular expression for what a C++ string expression may be at a place of the text.

        `values`: what variables are known to be; None: name a group for each variable instead.
        """
        text = _unwrap(expression)
        if depth == 0:
            return ANY
        if (parts := _split(text, "+")) and len(parts) > 1:
            return "".join(self._pattern(p, position, values, chosen, depth - 1) for p in parts)
        if (branches := _ternary(text)) is not None:
            return self._choose(branches, position, values, chosen, depth)
        if match := re.fullmatch(r'"([^"]*)"', text):
            return re.escape(match[1])
        if re.fullmatch(r"[a-z]\w*", text):
            return self._variable(text, position, values, chosen, depth)
        return ANY

    def _choose(
        self,
        branches: tuple[str, str, str],
        position: int,
        values: Mapping[str, str] | None,
        chosen: Mapping[str, bool],
        depth: int,
    ) -> str:
        condition, *both = branches
        if condition in chosen:
            both = [both[0] if chosen[condition] else both[1]]
        found = [self._pattern(b, position, values, chosen, depth - 1) for b in both]
        return f"(?:{'|'.join(found)})"

    def _variable(
        self,
        name: str,
        position: int,
        values: Mapping[str, str] | None,
        chosen: Mapping[str, bool],
        depth: int,
    ) -> str:
        if values is not None and name in values:
            return re.escape(values[name])
        loop = self._loop_values(name, position)
        if loop is not None:
            found = "|".join(map(re.escape, loop))
        else:
            found = "|".join(
                self._pattern(e, at, values, chosen, depth - 1)
                for at, e in self._assigned(name, position)
            )
        return f"(?P<{name}>{found or ANY})" if values is None else f"(?:{found or ANY})"

    def _loop_values(self, name: str, position: int) -> list[str] | None:
        """The strings of the loop around a place: of its list, or of the vector that it names."""
        loops = [loop for loop in self._loops_of(name) if loop[0] < position]
        sets = [at for at, _, _ in self._sets_of(name) if at < position]
        if not loops or (sets and sets[-1] > loops[-1][0]):
            return None
        return loops[-1][1] or None

    def _loops_of(self, name: str) -> list[tuple[int, list[str]]]:
        if name not in self._loops:
            found = re.finditer(_LOOP.format(name=name), self._text)
            self._loops[name] = [(m.start(), self._strings(m[1], m[2])) for m in found]
        return self._loops[name]

    def _strings(self, literal: str | None, vector: str | None) -> list[str]:
        if literal is None:
            match = re.search(rf"\b{vector}\s*=\s*(\{{[^}}]*\}})", self._text)
            literal = match[1] if match else ""
        return re.findall(r'"([^"]*)"', literal)

    def _assigned(self, name: str, position: int) -> list[tuple[int, str]]:
        """The expressions that a variable may have at a place, since its declaration.

        An assignment in the block of the declaration replaces what was before; one in an inner
        block may not have run.
        """
        found: list[tuple[int, str]] = []
        declared = 0
        for at, declares, expression in self._sets_of(name):
            if at >= position:
                break
            declared = at if declares else declared
            between = self._text[declared:at]
            replaces = declares or between.count("{") == between.count("}")
            found = [*([] if replaces else found), (at, expression)]
        return found

    def _sets_of(self, name: str) -> list[tuple[int, bool, str]]:
        if name not in self._sets:
            found = re.finditer(_SET.format(name=name), self._text)
            self._sets[name] = [
                (m.start(), m[1] is not None, self._text[m.end() : self._text.find(";", m.end())])
                for m in found
            ]
        return self._sets[name]


def _plain(name: str) -> str:
    """The name of an element for the name of an array that the generator makes of them."""
    return name.replace("arr_dmmv_", "mul_mat_vec_")


def _once(pattern: str) -> str:
    """Later mentions of a group become references to it."""
    seen: set[str] = set()

    def repeat(match: re.Match[str]) -> str:
        if match[1] in seen:
            return "(?:"
        seen.add(match[1])
        return match[0]

    return re.sub(r"\(\?P<(\w+)>", repeat, pattern)


def _unwrap(text: str) -> str:
    """Without brackets around all of it, std::string( ) and .c_str()."""
    text = text.strip().removesuffix(".c_str()")
    while True:
        inner = re.sub(r"^std::string\s*(?=\()", "", text)
        if not (inner.startswith("(") and close_of(inner, 0) == len(inner)):
            return text
        text = inner[1:-1].strip()


def _split(text: str, sign: str) -> list[str]:
    """The operands of an operator outside brackets and strings; a ternary is one operand."""
    if _ternary(text) is not None:
        return [text]
    return split_arguments(_swap_commas(text, sign))


def _swap_commas(text: str, sign: str) -> str:
    depth, out, quoted = 0, [], False
    for letter in text:
        quoted ^= letter == '"'
        depth += 0 if quoted else (letter in "([{") - (letter in ")]}")
        out.append("," if letter == sign and depth == 0 and not quoted else letter)
    return "".join(out)


def _ternary(text: str) -> tuple[str, str, str] | None:
    marks = [at for at, letter in _outside(text) if letter in "?:"]
    if not marks or text[marks[0]] != "?":
        return None
    colon = _matching_colon(text, marks)
    if colon is None:
        return None
    return text[: marks[0]].strip(), text[marks[0] + 1 : colon].strip(), text[colon + 1 :].strip()


def _matching_colon(text: str, marks: Sequence[int]) -> int | None:
    depth = 0
    for at in marks:
        depth += 1 if text[at] == "?" else -1
        if depth == 0:
            return at
    return None


def _outside(text: str) -> Iterator[tuple[int, str]]:
    """Letters outside brackets and strings; the colons of `::` are none."""
    depth, quoted = 0, False
    for at, letter in enumerate(text.replace("::", "__")):
        quoted ^= letter == '"'
        depth += 0 if quoted else (letter in "([{") - (letter in ")]}")
        if depth == 0 and not quoted:
            yield at, letter
