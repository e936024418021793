"""The functions and tables of a built library, in a form that does not tell their places.

Two builds of the same function differ in the addresses of what it calls and reads. So these are
replaced by the names of what is there, or by its bytes where it has no name (strings, constants,
tables of jumps). What can't be told to be equal counts as changed. Reads the output of objdump and
readelf of GNU binutils (https://sourceware.org/binutils/docs/binutils/) on ELF x86-64.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from upstream import process

TOOLS = ("objdump", "readelf")
FORMAT = "elf64-x86-64"
_FORMAT = re.compile(r"file format (\S+)")
_SECTION = re.compile(
    r"^\s*\[\s*\d+\] (\S+)\s+(\S+)\s+([0-9a-f]{16}) ([0-9a-f]+) ([0-9a-f]+)", re.M
)
_SYMBOL = re.compile(
    r"^\s*\d+: ([0-9a-f]{16})\s+(\S+) (FUNC|OBJECT|TLS)\s+\S+\s+\S+\s+(?:\[.*?\]\s+)?\d+ (\S+)$",
    re.M,
)
_RELOCATION = re.compile(r"^([0-9a-f]{16})  [0-9a-f]+ (R_\S+)\s+(.*)$", re.M)
_HEAD = re.compile(r"^([0-9a-f]{16}) <(.+)>:$")
_LINE = re.compile(r"^ *([0-9a-f]+):\t(.*)$")
_GOES = re.compile(r"\b[0-9a-f]+ <([^>]+)>$")
_READS = re.compile(r"-?0x[0-9a-f]+\(%rip\)(.*?)\s+# ([0-9a-f]+) <.*>$")
# Which line an assertion is on changes with every line above it.
_LINE_NUMBER = re.compile(r"^mov +\$0x[0-9a-f]+,%esi$")
_ABORT = re.compile(r"^call +<ggml_abort[@>]")
_NUMBERED = re.compile(r"\.\d+$")  # names that the compiler counts through
_TRAILING = re.compile(r"(?:00| )+$")
_TEXT = re.compile(rb"[\t\n\x1b\x20-\x7e]+")
_ONE = re.compile(r"s[sd]$|broadcast|movd$|movq$|^lea|ss2|sd2|cvtsi")  # one value, not a vector
WIDTHS = (("%zmm", 64), ("%ymm", 32), ("%xmm", 16))
POINTS = "to "  # begins a word that is a pointer
NEAR = 12  # instructions between a line number and the call that it is for


@dataclass(frozen=True)
class Symbol:
    """A named place: address and size in bytes."""

    name: str
    start: int
    size: int
    kind: str

    @property
    def end(self) -> int:
        return self.start + self.size


@dataclass(frozen=True)
class Item:
    """A function or an object: what it is made of, the names of what it calls or points to."""

    lines: tuple[str, ...]
    refers: frozenset[str]


@dataclass(frozen=True)
class Code:
    """The functions and objects of some libraries by name; a name may be there more than once.

    An object is made of 8-byte words, a pointer as the name of what it points to. `places` says in
    which library a name is, and where.
    """

    functions: Mapping[str, tuple[Item, ...]]
    objects: Mapping[str, tuple[Item, ...]]
    places: Mapping[str, tuple[Path, Symbol]] = field(default_factory=dict)

    def words(self, name: str) -> tuple[str, ...]:
        """What the first object of that name is made of; nothing where there is none."""
        return self.objects[name][0].lines if name in self.objects else ()


def read_code(libraries: Sequence[Path]) -> Code | None:
    """Read libraries that work together; None when one is not of the known format.

    Raises CommandError without TOOLS.
    """
    functions: defaultdict[str, list[Item]] = defaultdict(list)
    objects: defaultdict[str, list[Item]] = defaultdict(list)
    places: dict[str, tuple[Path, Symbol]] = {}
    for path in libraries:
        image = _open_image(path)
        if image is None:
            return None
        places |= {symbol.name: (path, symbol) for symbol in image.symbols}
        for name, item in image.functions():
            functions[name].append(item)
        for symbol, words in image.objects():
            objects[symbol.name].append(_make_item(words))
    return Code(_freeze(functions), _freeze(objects), places)


def _freeze(items: Mapping[str, list[Item]]) -> dict[str, tuple[Item, ...]]:
    return {name: tuple(mine) for name, mine in items.items()}


def _make_item(lines: Sequence[str]) -> Item:
    return Item(tuple(lines), frozenset(_names(lines)))


@dataclass(frozen=True)
class _Section:
    name: str
    kind: str
    start: int
    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


@dataclass(frozen=True)
class _Pointer:
    """What the loader writes to a place: a name of any library, or an address of this one."""

    name: str = ""
    address: int = 0


@dataclass(frozen=True)
class _Image:
    """One library: its bytes and the text that binutils print of it."""

    data: bytes
    sections: tuple[_Section, ...]
    symbols: tuple[Symbol, ...]  # by address
    relocations: Mapping[int, _Pointer]
    assembly: str

    def functions(self) -> Iterator[tuple[str, Item]]:
        """Every function by each of its names."""
        for symbol, lines in self._bodies:
            text = _drop_line_numbers([self._rewrite(line, symbol) for line in lines])
            item = _make_item(text)
            yield from ((name, item) for name in self._aliases[symbol.start])

    def objects(self) -> Iterator[tuple[Symbol, tuple[str, ...]]]:
        """Every object that has a name of its own, as words."""
        for symbol in self.symbols:
            if symbol.kind == "OBJECT" and not _NUMBERED.search(symbol.name):
                yield symbol, self._words(symbol.start, symbol.end)

    @cached_property
    def _starts(self) -> list[int]:
        return [symbol.start for symbol in self.symbols]

    @cached_property
    def _aliases(self) -> dict[int, set[str]]:
        found: defaultdict[int, set[str]] = defaultdict(set)
        for symbol in self.symbols:
            found[symbol.start].add(symbol.name)
        return found

    @cached_property
    def _bodies(self) -> list[tuple[Symbol, list[str]]]:
        known = {symbol.start: symbol for symbol in self.symbols if symbol.kind == "FUNC"}
        found: list[tuple[Symbol, list[str]]] = []
        current: Symbol | None = None
        for line in self.assembly.splitlines():
            if head := _HEAD.match(line):
                current = known.get(int(head[1], 16))
                if current:
                    found.append((current, []))
                continue
            match = _LINE.match(line)
            if current and match and int(match[1], 16) < current.end:
                found[-1][1].append(match[2].strip())
        return found

    @cached_property
    def _targets(self) -> list[int]:
        """All addresses that something points to, where a nameless constant ends at the latest."""
        lines = (line for _, body in self._bodies for line in body)
        read = (int(found[2], 16) for line in lines if (found := _READS.search(line)))
        pointed = (each.address for each in self.relocations.values() if each.address)
        ends = (section.end for section in self.sections)
        return sorted({*read, *pointed, *self._starts, *ends})

    def _rewrite(self, line: str, function: Symbol) -> str:
        if read := _READS.search(line):
            what = self._describe(int(read[2], 16), function, _count_bytes(line))
            return f"{line[: read.start()]}{{{what}}}{read[1]}"
        return _GOES.sub(r"<\1>", line)

    def _describe(self, address: int, reader: Symbol | None = None, least: int = 0) -> str:
        """What is at an address: a name, or the bytes, `least` or more, where it has none."""
        if (stands := self.relocations.get(address)) and stands.name:
            return stands.name
        symbol = self._find(address)
        if symbol and not (symbol.kind == "OBJECT" and _NUMBERED.search(symbol.name)):
            return f"<{symbol.name}>+{address - symbol.start}"
        if symbol:
            return " ".join(self._words(address, symbol.end))
        end = self._targets[bisect_right(self._targets, address)]
        if reader and (table := self._jumps(address, end, reader)):
            return table
        # what begins inside of it (the end of another string, a part of a vector) ends nothing
        end = max(end, address + least, self._end_of_text(address))
        # zeros at the end may fill up to the next constant
        return _TRAILING.sub("", " ".join(self._words(address, end)))

    def _end_of_text(self, address: int) -> int:
        """Where a string that begins here ends, or the address itself."""
        section = self._section(address)
        text = self._bytes(address, section.end).partition(b"\0")[0] if section else b""
        return address + len(text) if _TEXT.fullmatch(text) else address

    def _find(self, address: int) -> Symbol | None:
        at = bisect_right(self._starts, address) - 1
        found = self.symbols[at] if at >= 0 else None
        return found if found and (address < found.end or address == found.start) else None

    def _jumps(self, address: int, end: int, function: Symbol) -> str:
        """A table of jumps, which are distances from itself; "" when it is none."""
        found: list[str] = []
        data = self._bytes(address, end)
        for at in range(0, len(data) - 3, 4):
            place = address + int.from_bytes(data[at : at + 4], "little", signed=True)
            into = self._find(place)
            if into is None or into.kind != "FUNC":
                break
            found.append(f"{into.name}+{place - into.start}")
        own = found and found[0].partition("+")[0].startswith(function.name)
        return f"jumps {' '.join(found)}" if own else ""

    def _words(self, start: int, end: int) -> tuple[str, ...]:
        """Bytes as words of 8, in which a pointer is the name of what it points to."""
        section = self._section(start)
        if section is None or section.kind == "NOBITS":
            return (f"{end - start} zero bytes",)
        return tuple(self._word(at, min(at + 8, end)) for at in range(start, end, 8))

    def _word(self, start: int, end: int) -> str:
        if stands := self.relocations.get(start):
            return stands.name or POINTS + self._describe(stands.address)
        return self._bytes(start, end).hex()

    def _bytes(self, start: int, end: int) -> bytes:
        section = self._section(start)
        if section is None or section.kind == "NOBITS":
            return b""
        at = section.offset + start - section.start
        return self.data[at : at + min(end, section.end) - start]

    def _section(self, address: int) -> _Section | None:
        return next((each for each in self.sections if each.start <= address < each.end), None)


def _count_bytes(line: str) -> int:
    """How many bytes an instruction reads at least, from its vector registers."""
    mnemonic, _, operands = line.partition(" ")
    if _ONE.search(mnemonic) or "{1to" in operands:
        return 1
    return next((size for name, size in WIDTHS if name in operands), 1)


def _names(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        for name in re.findall(r"<([^<>]+(?:<[^<>]*>)?)>", line):
            yield re.sub(r"(?:@.*|\+0x[0-9a-f]+)$", "", name)


def _drop_line_numbers(lines: list[str]) -> list[str]:
    for at, line in enumerate(lines):
        if _ABORT.match(line):
            before = range(at - 1, max(at - NEAR, -1), -1)
            number = next((each for each in before if _LINE_NUMBER.match(lines[each])), None)
            if number is not None:
                lines[number] = "mov LINE,%esi"
    return lines


def _open_image(path: Path) -> _Image | None:
    assembly = process.run(("objdump", "-d", "-w", "--no-show-raw-insn", path), ok=(0, 1)).text
    known = _FORMAT.search(assembly)
    if known is None or known[1] != FORMAT:
        return None
    printed = process.run(("readelf", "-W", "-S", "-s", "-r", path)).text
    symbols = printed[printed.find("'.symtab'") :]
    return _Image(
        data=path.read_bytes(),
        sections=tuple(_read_sections(printed)),
        symbols=tuple(sorted(_read_symbols(symbols), key=lambda each: (each.start, -each.size))),
        relocations=dict(_read_relocations(printed)),
        assembly=assembly,
    )


def _read_sections(text: str) -> Iterator[_Section]:
    for name, kind, start, offset, size in _SECTION.findall(text):
        if int(start, 16):
            yield _Section(name, kind, int(start, 16), int(offset, 16), int(size, 16))


def _read_symbols(text: str) -> Iterator[Symbol]:
    for start, size, kind, name in _SYMBOL.findall(text):
        if kind != "TLS" and int(start, 16):
            yield Symbol(name, int(start, 16), int(size, 0), kind)


def _read_relocations(text: str) -> Iterator[tuple[int, _Pointer]]:
    for at, kind, rest in _RELOCATION.findall(text):
        words = rest.split()
        if kind.endswith("_RELATIVE"):
            yield int(at, 16), _Pointer(address=int(words[0], 16))
        elif len(words) > 1:
            name, added = words[1].partition("@")[0], " ".join(words[2:])
            yield int(at, 16), _Pointer(f"<{name}>{'' if added in ('', '+ 0') else added}")
