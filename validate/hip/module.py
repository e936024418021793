"""The kernels of a file in LLVM's intermediate code, each with a digest of all that it is made of.

clang's front end takes two seconds for a file whose kernels take half a minute to compile, and most
of them are the same before and after a patch. So the front end runs for every file, before any
optimisation (-disable-llvm-passes), and only kernels that no earlier file had are compiled on.

Kernels are compiled apart where nothing that one of them calls can be compiled differently because
another one is there. LLVM's inliner asks how often a function is called only where it is too large
to be inlined anyway: kernels that share such a function, one that is never inlined, or a variable
that they write stay together. https://llvm.org/docs/LangRef.html
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

from validate.isa.compilers import digest

# Lines of a function with all that it calls. AMDGPU's threshold is 2475, an instruction counts 5.
LARGE = 200
_DEFINED = re.compile(
    r'^(?P<name>@(?:"[^"]*"|[-\w$.]+)|%(?:"[^"]*"|[A-Za-z_][-\w$.]*)|\$(?:"[^"]*"|[-\w$.]+)|![-\w$.]+)'
    r" = |^attributes (?P<group>#\d+) = |^(?:define|declare)\b.*?(?P<function>@(?:"
    r'"[^"]*"|[-\w$.]+))\('
)
_REFERENCE = re.compile(
    r'(@(?:"[^"]*"|[-\w$.]+)|%"[^"]*"|%[A-Za-z_][-\w$.]*|\$(?:"[^"]*"|[-\w$.]+)|!\d+|#\d+)'
)
_VARIABLE = re.compile(r"^@\S+ = (?!external)[^@]*?\bglobal\b")
_SHARED = re.compile(r"\baddrspace\(3\) (?:global|constant)\b")
NAMED = "!llvm."  # metadata of the whole module: its flags count, its identity does not
IDENTITY = "!llvm.ident"


@dataclass
class Entity:
    """Something that has a name: a function, a variable, a type, attributes, metadata."""

    name: str
    text: str
    lines: int = 1

    @cached_property
    def parts(self) -> list[str]:
        """The text between references, and references: every second one."""
        return _REFERENCE.split(self.text)

    @property
    def references(self) -> list[str]:
        return self.parts[1::2]

    @property
    def is_function(self) -> bool:
        return self.text.startswith("define")

    @property
    def is_kernel(self) -> bool:
        return self.is_function and "amdgpu_kernel" in self.text.split("(", 1)[0]


@dataclass(frozen=True)
class Unit:
    """Kernels that are compiled together, by symbol; lines: how much work that is."""

    key: str
    kernels: tuple[str, ...]
    lines: int


@dataclass(frozen=True)
class Module:
    """The text of a module by entities; what has no name, or a type's number, is the `rest`."""

    entities: Mapping[str, Entity]
    rest: str
    _digests: dict[str, str] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)

    @cached_property
    def units(self) -> list[Unit]:
        """All kernels, in units that are compiled apart."""
        kernels = [each for each in self.entities.values() if each.is_kernel]
        whole = digest(self.rest, *(self.digest(name) for name in self._named()))
        return [self._unit(whole, group) for group in self._group(kernels)]

    def keep(self, kernels: Set[str]) -> str:
        """The text with no other kernels than these, by symbol."""
        texts = (
            each.text
            for each in self.entities.values()
            if not each.is_kernel or each.name[1:].strip('"') in kernels
        )
        return "\n".join((self.rest, *texts, ""))

    def digest(self, name: str) -> str:
        """Stands for an entity and all that it refers to."""
        return self._digest(name, [])[0]

    def _digest(self, name: str, above: list[str]) -> tuple[str, int]:
        """The digest, and how far above the entity it refers back: in a circle, what is not the
        first of it has no digest of its own that could be kept.
        """
        if name in above:  # a function that calls itself, a loop that is its own name
            return f"up {len(above) - above.index(name)}", above.index(name)
        entity, here = self.entities.get(name), len(above)
        if entity is None or name in self._digests:
            return self._digests.get(name, name), here
        above.append(name)
        parts, back = list(entity.parts), here
        for at in range(1, len(parts), 2):
            # Functions and variables keep their names: a name may mean something to LLVM.
            kept = parts[at] if parts[at][0] in "@$" else ""
            below, far = self._digest(parts[at], above)
            parts[at], back = f"{kept}<{below}>", min(back, far)
        above.pop()
        text = "".join(parts) if name[0] in "@$" else "".join(parts).split(" = ", 1)[-1]
        found = hashlib.sha256(text.encode()).hexdigest()
        if back >= here:
            self._digests[name] = found
        return found, back

    def _named(self) -> list[str]:
        return sorted(n for n in self.entities if n.startswith(NAMED) and n != IDENTITY)

    def _unit(self, whole: str, group: Iterable[Entity]) -> Unit:
        kernels = sorted(group, key=lambda each: each.name)
        symbols = tuple(each.name[1:].strip('"') for each in kernels)
        key = digest(whole, *(self.digest(each.name) for each in kernels))
        return Unit(key, symbols, sum(self._size(each.name) for each in kernels))

    def _group(self, kernels: list[Entity]) -> list[list[Entity]]:
        """Kernels that share something binding are in one group."""
        used = {each.name: set(self._binding(each.name)) for each in kernels}
        names = {each.name for each in kernels}
        called = any(ref in names for e in self.entities.values() for ref in e.references[1:])
        bound = {name for found in used.values() for name in found if self._is_function(name)}
        if called or any(map(self._uses_lds, bound)):
            return [kernels] if kernels else []
        groups: list[tuple[set[str], list[Entity]]] = []
        for each in kernels:
            mine = (used[each.name], [each])
            apart = []
            for group in groups:
                if group[0] & mine[0]:
                    mine = (group[0] | mine[0], group[1] + mine[1])
                else:
                    apart.append(group)
            groups = [*apart, mine]
        return [members for _, members in groups]

    def _binding(self, kernel: str) -> Iterator[str]:
        """What is below a kernel and binds it: functions that may stay functions, variables."""
        seen, waiting = {kernel}, [kernel]
        while waiting:
            for name in self.entities[waiting.pop()].references:
                below = self.entities.get(name)
                if below is None or name in seen:
                    continue
                seen.add(name)
                if below.is_function:
                    waiting.append(name)
                if self._is_binding(below) if below.is_function else _VARIABLE.match(below.text):
                    yield name

    def _is_binding(self, function: Entity) -> bool:
        words = self._attributes(function)
        if "alwaysinline" in words:
            return False
        return "noinline" in words or self._size(function.name) > LARGE

    def _attributes(self, function: Entity) -> list[str]:
        head = function.text.split("\n", 1)[0]
        groups = [self.entities[ref] for ref in _REFERENCE.findall(head) if ref in self.entities]
        texts = [each.text for each in groups if each.name.startswith("#")]
        return " ".join(texts).split()

    def _size(self, name: str) -> int:
        """Lines of a function with all that it calls; what calls itself counts once."""
        if name not in self._sizes:
            self._sizes[name] = 0
            entity = self.entities[name]
            below = {ref for ref in entity.references if self._is_function(ref)} - {name}
            calls = [ref for ref in entity.references if ref in below]
            self._sizes[name] = entity.lines + sum(self._size(ref) for ref in calls)
        return self._sizes[name]

    def _is_function(self, name: str) -> bool:
        return name in self.entities and self.entities[name].is_function

    def _uses_lds(self, function: str) -> bool:
        found = (self.entities.get(name) for name in self.entities[function].references)
        return any(each is not None and _SHARED.search(each.text) for each in found)


def read_module(text: str) -> Module:
    """Take a module of LLVM's text form apart."""
    entities: dict[str, Entity] = {}
    rest = []
    for block in _blocks(text):
        match = _DEFINED.match(block)
        name = match and (match["name"] or match["group"] or match["function"])
        if not name:
            rest.append(block)
            continue
        entities[name] = Entity(name, block, block.count("\n") + 1)
    return Module(entities, "\n".join(rest))


def _blocks(text: str) -> Iterator[str]:
    """Functions as one, everything else by line; comments are left out."""
    function: list[str] = []
    for line in text.split("\n"):
        if function:
            function.append(line)
            if line == "}":
                yield "\n".join(function)
                function = []
        elif line.startswith("define"):
            function = [line]
        elif line and not line.startswith((";", "source_filename")):
            yield line


def weigh(units: Iterable[Unit], most: int) -> Iterator[list[Unit]]:
    """Share units out into heaps of about so many lines, the largest first."""
    heap: list[Unit] = []
    for unit in sorted(units, key=lambda each: -each.lines):
        heap.append(unit)
        if sum(each.lines for each in heap) >= most:
            yield heap
            heap = []
    if heap:
        yield heap
