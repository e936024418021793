"""Load mutated model files of the ROCmFPx types under sanitizers: address, undefined behaviour.

    python rocmfpx_mutated.py --bin BIN --source TREE --work DIR [--files N] [--seed N]

Compiles ggml-base and the model loader of the source tree with sanitizers, without any backend,
and has them load small files with tensors of all six types, each mutated in one way. What names a
tensor wrongly (scale byte, end of file, number of blocks, undefined or other type, the 240-byte
layout that some files have as type 107) must be refused with the tensor's name and its offset.
What mutates anything else may load or be refused. Nothing may crash, and files without a mutation
must load. `--files 10000` is the full proof; about ten minutes.
Exit status: 0 holds, 1 does not hold, 3 no C++ compiler, 4 the tree does not compile this way.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from check_rows import report_rows
from rocmfpx_mutations import REFUSED, File, mutate

CHECK: Final = "rocmfpx-mutated"
NO_ENVIRONMENT, NOT_MEASURED = 3, 4
DRIVER: Final = Path(__file__).with_name("rocmfpx_mutated_driver.cpp")
LOADER: Final = ("model-loader", "mmap", "arch", "impl", "hparams")
SANITIZE: Final = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g1")
SHOWN: Final = 5
HANGS_S: Final = 900.0
Row: TypeAlias = dict[str, object]


class CannotCompile(Exception):
    """The source tree has another form than this program knows."""


# --- the driver ---------------------------------------------------------------------------------


def sources_of(tree: Path) -> list[Path]:
    """List ggml-base, from its cmake file, and what of llama.cpp the loader needs."""
    text = (tree / "ggml/src/CMakeLists.txt").read_text(encoding="utf-8")
    found = re.search(r"add_library\(ggml-base\s(.*?)\)", text, re.S)
    if not found:
        raise CannotCompile("ggml/src/CMakeLists.txt has no add_library(ggml-base)")
    base = [tree / "ggml/src" / name for name in re.findall(r"[\w./-]+\.c(?:pp)?\b", found[1])]
    registry = [tree / "ggml/src" / f"ggml-backend-{part}.cpp" for part in ("reg", "dl")]
    loader = [tree / "src" / f"llama-{part}.cpp" for part in LOADER]
    return [path for path in (*base, *registry, *loader) if path.is_file()]


def compile_driver(tree: Path, work: Path) -> Path:
    """Compile all with sanitizers. Raises FileNotFoundError without a compiler."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    c_compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not compiler or not c_compiler:
        raise FileNotFoundError("no C++ compiler")
    version = '#define GGML_VERSION "0"\n#define GGML_COMMIT "0"\n'
    (work / "ggml-version.h").write_text(version, encoding="utf-8")
    folders = ("include", "src", "ggml/include", "ggml/src")
    words = [*SANITIZE, "-pthread", "-w", "-ffp-contract=off", "-D_GNU_SOURCE", f"-I{work}"]
    words += [f"-I{tree / folder}" for folder in folders]
    words += ['-DGGML_VERSION="0"', '-DGGML_COMMIT="0"', "-DGGML_SCHED_MAX_COPIES=4"]
    launcher = [found] if (found := shutil.which("ccache")) else []

    def compile_one(source: Path) -> Path:
        target = work / f"{source.name}.o"
        is_c = source.suffix == ".c"
        tool = [c_compiler, "-std=gnu11"] if is_c else [compiler, "-std=c++17"]
        run([*launcher, *tool, *words, "-c", source, "-o", target])
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, [*sources_of(tree), DRIVER]))
    program = work / "rocmfpx-mutated-driver"
    run([compiler, *SANITIZE, "-pthread", *objects, "-ldl", "-o", program])
    return program


def run(words: Sequence[str | Path]) -> None:
    """Run a compiler. Raises CannotCompile with its last words."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [
            line for line in done.stderr.splitlines() if "error" in line or "undefined" in line
        ]
        raise CannotCompile("; ".join((lines or done.stderr.splitlines())[:3]))


@dataclass(frozen=True)
class Answer:
    """What the driver said about a file; `crash` is what a sanitizer or an assertion said."""

    said: str
    crash: str = ""

    @property
    def loaded(self) -> bool:
        """Tell whether the file was loaded."""
        return self.said == "loaded"


def ask(program: Path, paths: Sequence[Path]) -> Iterator[Answer]:
    """Have the driver load the files; after a crash it goes on with the next one."""
    options = "allocator_may_return_null=1:detect_leaks=1:max_allocation_size_mb=2048"
    env = os.environ | {"ASAN_OPTIONS": options, "UBSAN_OPTIONS": "print_stacktrace=1"}
    left = list(paths)
    while left:
        answers, end = play(program, left, env)
        yield from (Answer(said) for said in answers)
        left = left[len(answers) :]
        if left:
            yield Answer("", end or "ended early")
            left = left[1:]
        elif end:
            yield Answer("", f"at the end: {end}")


def play(program: Path, paths: Sequence[Path], env: Mapping[str, str]) -> tuple[list[str], str]:
    """Run the driver once; gives its answers and why it ended, nothing where it ended well."""
    text = "".join(f"{path}\n" for path in paths).encode()
    try:
        done = subprocess.run(
            [program], input=text, capture_output=True, env=env, check=False, timeout=HANGS_S
        )
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(errors="replace").splitlines(), "hangs"
    end = last_words(done.stderr.decode(errors="replace")) if done.returncode else ""
    return done.stdout.decode(errors="replace").splitlines(), end


WORDS: Final = re.compile(r"runtime error|ERROR: |GGML_ASSERT|what\(\)|terminate|abort", re.I)


def last_words(text: str) -> str:
    """Choose the lines that say what happened."""
    lines = [line.strip() for line in text.splitlines()]
    telling = [line for line in lines if WORDS.search(line)] + [
        line for line in lines if line.startswith("#") and "/src/" in line
    ]
    return " | ".join((telling or lines or ["died"])[:4])[:600]


# --- the verdict --------------------------------------------------------------------------------


def complaint(kind: str, file: File, answer: Answer) -> str:
    """Say what is wrong with an answer, or nothing."""
    if answer.crash:
        return f"crash: {answer.crash}"
    if kind == "sound":
        return "" if answer.loaded else f"refused: {answer.said}"
    if kind not in {mutation.__name__ for mutation in REFUSED}:
        return ""
    if answer.loaded:
        return f"loaded, though {file.target} is spoilt"
    return "" if names(file, answer.said) else f"without name or offset: {answer.said}"


def names(file: File, said: str) -> bool:
    """Tell whether a refusal names a tensor and an offset.

    A tensor that takes more or less room than it should is noticed at the next one's offset, and
    with the end of the file missing it is the first one that does not fit.
    """
    order = [tensor.name for tensor in file.tensors]
    start = order.index(file.target)
    near = [*order[start : start + 2], *(order[start:] if file.size is not None else ())]
    return any(f"'{name}'" in said for name in near) and bool(re.search(r"offset \d+", said))


def mutation_rows(tree: Path, work: Path, n_files: int, seed: int = 1) -> list[Row]:
    """Run the mutations; a row for each kind. Raises CannotCompile and FileNotFoundError."""
    program = compile_driver(tree, work)
    files = [mutate(index, seed) for index in range(n_files)]
    wrong: dict[str, list[str]] = {}
    loaded: Counter[str] = Counter()
    for start in range(0, n_files, 500):
        part = files[start : start + 500]
        paths = []
        for index, (_, file) in enumerate(part):
            paths.append(work / f"mutated-{index}.gguf")
            paths[-1].write_bytes(file.encode())
        answers = list(ask(program, paths))
        for index, answer in enumerate(answers):
            kind, file = part[min(index, len(part) - 1)]
            loaded[kind] += answer.loaded
            if said := complaint(kind, file, answer):
                wrong.setdefault(kind, []).append(f"file {start + index}: {said}")
    counts = Counter(kind for kind, _ in files)
    return [summary(kind, n, loaded[kind], wrong.get(kind, [])) for kind, n in counts.items()]


def summary(kind: str, n_files: int, n_loaded: int, wrong: list[str]) -> Row:
    """Report one kind of mutation."""
    row: Row = {"case": f"mutated/{kind}", "files": n_files, "loaded": n_loaded}
    return row | {"wrong": len(wrong), "first": wrong[:SHOWN], "passed": not wrong}


def main() -> int:
    """Read the command line, which is that of all checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--source", "--work"):
        parser.add_argument(name, type=Path, required=True)
    for name in ("--bin", "--root"):
        parser.add_argument(name, type=Path, help="not used")
    parser.add_argument("--files", type=int, default=240)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    work = arguments.work.resolve()
    try:
        return report_rows(
            CHECK, mutation_rows(arguments.source, work, arguments.files, arguments.seed)
        )
    except FileNotFoundError as error:
        report_rows(CHECK, [], str(error))
        return NO_ENVIRONMENT
    except CannotCompile as error:
        report_rows(CHECK, [], f"the tree does not compile this way: {error}")
        return NOT_MEASURED


if __name__ == "__main__":
    sys.exit(main())
