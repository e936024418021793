"""Reading C, C++, GLSL and Python sources as text: comments, brackets, preprocessor conditions.

None of this is a compiler. What cannot be read is reported by its name, never taken as absent.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import operator as comparison
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

_C_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_DIRECTIVE = re.compile(r"\s*#\s*(ifdef|ifndef|if|elif|else|endif)\b(.*)")
_DEFINED = re.compile(r"defined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_OPEN, _CLOSE = "([{", ")]}"
MAX_ATOMS = 10
_COMPARE: Mapping[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: comparison.eq,
    ast.NotEq: comparison.ne,
    ast.Lt: comparison.lt,
    ast.LtE: comparison.le,
    ast.Gt: comparison.gt,
    ast.GtE: comparison.ge,
}
Condition = tuple[str, ...]


def strip_comments(text: str) -> str:
    """Text without C comments; line numbers stay."""
    return _C_COMMENT.sub(_keep_lines, text)


def _keep_lines(match: re.Match[str]) -> str:
    found = match[0]
    return found if found.startswith('"') else " " + "\n" * found.count("\n")


def normalise(text: str) -> str:
    """One space between tokens at most: what remains differs only when the code does."""
    return re.sub(r"\s*([^\w\s])\s*", r"\1", " ".join(text.split()))


def digest(text: str) -> str:
    """A short hash of normalised text."""
    return hashlib.sha256(normalise(text).encode()).hexdigest()[:12]


def close_of(text: str, start: int) -> int:
    """The index behind the bracket that closes the one at `start`; len(text) when none does."""
    depth = 0
    for match in re.compile(r'"(?:\\.|[^"\\\n])*"|[()\[\]{}]').finditer(text, start):
        if match[0] in _OPEN:
            depth += 1
        elif match[0] in _CLOSE:
            depth -= 1
            if depth == 0:
                return match.end()
    return len(text)


def split_arguments(text: str) -> list[str]:
    """The parts between commas that are in no bracket and no string."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(r'"(?:\\.|[^"\\\n])*"|[()\[\]{},]', text):
        if match[0] in _OPEN:
            depth += 1
        elif match[0] in _CLOSE:
            depth -= 1
        elif match[0] == "," and depth == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    parts.append(text[start:].strip())
    return parts


def body_of(text: str, pattern: str) -> str | None:
    """What is between the braces of the first definition that the pattern finds."""
    for match in re.finditer(pattern, text):
        brace = text.find("{", match.end())
        semicolon = text.find(";", match.end())
        if brace >= 0 and (semicolon < 0 or brace < semicolon):
            return text[brace + 1 : close_of(text, brace) - 1]
    return None


def walk_conditions(text: str) -> Iterator[tuple[Condition, str]]:
    """Every line that is no conditional directive, with the conditions it stands under.

    An include guard (`#ifndef X` directly before `#define X`) is no condition.
    """
    stack: list[list[str]] = []
    lines = text.split("\n")
    for number, line in enumerate(lines):
        match = _DIRECTIVE.match(line)
        if match is None:
            yield tuple(word for level in stack for word in level if word), line
        elif match[1].startswith("if"):
            stack.append([_first(match[1], match[2].strip(), lines[number + 1 : number + 4])])
        elif stack:
            _turn(stack, match[1], match[2].strip())


def _first(kind: str, rest: str, following: Sequence[str]) -> str:
    name = rest.split()[0] if rest else ""
    if kind == "if":
        guard = re.fullmatch(r"!\s*defined\s*\(?\s*(\w+)\s*\)?", rest)
        return "" if guard and _is_guard(guard[1], following) else rest
    if kind == "ifdef":
        return f"defined({name})"
    return "" if _is_guard(name, following) else f"!defined({name})"


def _is_guard(name: str, following: Sequence[str]) -> bool:
    code = [line for line in following if line.strip()]
    return bool(code) and re.match(rf"\s*#\s*define\s+{name}\s*$", code[0]) is not None


def _turn(stack: list[list[str]], kind: str, rest: str) -> None:
    if kind == "endif":
        stack.pop()
        return
    top = stack[-1]
    last = top[-1]
    top[-1] = last[1:] if re.fullmatch(r"!defined\(\w+\)", last) else f"!({last})"
    if re.fullmatch(r"!\(defined\(\w+\)\)", top[-1]):
        top[-1] = "!" + top[-1][2:-1]
    if kind == "elif":
        top.append(rest)


def atoms_of(conditions: Sequence[Condition]) -> list[str]:
    """The macro names that conditions ask about."""
    words = {word for condition in conditions for part in condition for word in _WORD.findall(part)}
    return sorted(words - {"defined", "true", "false"})


def holds(condition: Condition, defined: Mapping[str, str]) -> bool | None:
    """Whether all parts hold where exactly these macros are defined; None: cannot be read."""
    try:
        return all(_fold(_parse(part), defined) for part in condition)
    except (SyntaxError, ValueError):
        return None


@lru_cache(maxsize=4096)
def _parse(part: str) -> ast.expr:
    """A preprocessor expression as the Python expression of the same meaning."""
    text = _DEFINED.sub(lambda match: f"defined.{match[1] or match[2]}", part)
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text.replace("&&", " and ").replace("||", " or "))
    text = re.sub(r"!(?!=)", " not ", text)
    return ast.parse(text.strip(), mode="eval").body


def _fold(node: ast.expr, defined: Mapping[str, str]) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Attribute(attr=name):
            return int(name in defined)
        case ast.Name(id=name):
            return _number(defined.get(name, "0"))
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return int(not _fold(inner, defined))
        case ast.BoolOp(op=ast.And(), values=parts):
            return int(all(_fold(part, defined) for part in parts))
        case ast.BoolOp(op=ast.Or(), values=parts):
            return int(any(_fold(part, defined) for part in parts))
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return int(_compare(operator, _fold(left, defined), _fold(right, defined)))
    raise ValueError(ast.dump(node))


def _compare(operator: ast.cmpop, left: int, right: int) -> bool:
    compare = _COMPARE.get(type(operator))
    if compare is None:
        raise ValueError(ast.dump(operator))
    return bool(compare(left, right))


def _number(value: str) -> int:
    match = re.fullmatch(r"\s*(\d+)[uUlL]*\s*", value)
    return int(match[1]) if match else 1


def assignments(
    atoms: Sequence[str], sure: Sequence[str], maybe: Sequence[str]
) -> Iterator[dict[str, str]]:
    """Every way the atoms may be defined: `sure` are, `maybe` are or are not, the rest is not.

    Raises ValueError when there are too many ways to try.
    """
    free = [atom for atom in atoms if atom in maybe and atom not in sure]
    if len(free) > MAX_ATOMS:
        raise ValueError(f"{len(free)} conditions: {', '.join(free)}")
    fixed = {atom: "1" for atom in atoms if atom in sure}
    for chosen in itertools.product((False, True), repeat=len(free)):
        yield fixed | {atom: "1" for atom, on in zip(free, chosen, strict=True) if on}
