"""Reading build logs: captured ones of gcc, cmake and ld, and anything at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validate.compile_error import CompileError, find_compile_error, find_machine_fault

SOURCE = Path("/lab/source")
COMPILER = """\
[1/3] Building CXX object CMakeFiles/core.dir/core.cpp.o
/lab/source/core.cpp:3:2: warning: #warning "error: not one" [-Wcpp]
[2/3] Building CXX object common/CMakeFiles/llama-common.dir/speculative.cpp.o
FAILED: [code=1] common/CMakeFiles/llama-common.dir/speculative.cpp.o
/usr/bin/ccache /usr/bin/c++ -I/lab/source/. -c /lab/source/common/speculative.cpp
In file included from /lab/source/common/speculative.cpp:1:
/lab/source/common/speculative.h: In function 'int f()':
/lab/source/common/speculative.h:12:5: error: 'foo' was not declared in this scope
   12 |     foo();
      |     ^~~
ninja: build stopped: subcommand failed.
"""
OLD_NINJA = """\
FAILED: a.o
cc -c /lab/source/ggml/src/ggml.c
/lab/source/ggml/src/ggml.c:1:10: fatal error: missing.h: No such file or directory
"""
CMAKE = """\
-- Configuring
CMake Error at ggml/src/CMakeLists.txt:7 (add_library):
  Cannot find source file:

    missing.cpp

-- Configuring incomplete, errors occurred!
"""
LINKER = """\
FAILED: [code=1] bin/llama-bench
: && /usr/bin/c++ -O3 llama-bench.cpp.o -o bin/llama-bench && :
/usr/bin/ld: llama-bench.cpp.o: in function `main':
llama-bench.cpp:(.text+0x5): undefined reference to `gone()'
collect2: error: ld returned 1 exit status
"""
GENERATOR = """\
FAILED: [code=2] generated.h
cd /lab/build && ./vulkan-shaders-gen
cannot compile mul_mm.comp
"""


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (
            COMPILER,
            CompileError("common/speculative.h", 12, "'foo' was not declared in this scope"),
        ),
        (OLD_NINJA, CompileError("ggml/src/ggml.c", 1, "missing.h: No such file or directory")),
        (CMAKE, CompileError("ggml/src/CMakeLists.txt", 7, "Cannot find source file:")),
        (
            LINKER,
            CompileError(
                "bin/llama-bench", 0, "llama-bench.cpp:(.text+0x5): undefined reference to `gone()'"
            ),
        ),
        (GENERATOR, CompileError("generated.h", 0, "cannot compile mul_mm.comp")),
        ("[1/1] Linking CXX executable bin/app\n", None),
        ("", None),
    ],
)
def test_the_first_error_is_found(log: str, error: CompileError | None) -> None:
    assert find_compile_error(log, SOURCE) == error


def test_the_place_is_left_out_where_there_is_no_line() -> None:
    assert str(CompileError("bin/app", 0, "undefined")) == "bin/app: undefined"
    assert str(CompileError("a.cpp", 3, "undefined")) == "a.cpp:3: undefined"


@pytest.mark.parametrize(
    "line",
    [
        "/lab/source/a.cpp:1:1: fatal error: error writing to /tmp/x.s: No space left on device",
        "c++: fatal error: Killed signal terminated program cc1plus",
        "cc1plus: out of memory allocating 65536 bytes: virtual memory exhausted",
    ],
)
def test_the_machines_faults_are_told_from_the_codes(line: str) -> None:
    log = f"FAILED: [code=1] a.o\nc++ -c a.cpp\n{line}\n"
    assert find_machine_fault(log) == line


def test_a_quoted_source_line_is_no_fault_of_the_machine() -> None:
    log = COMPILER.replace("foo();", 'throw "No space left on device";')
    assert "No space left" in log
    assert find_machine_fault(log) is None
    earlier = f"[1/9] a warning about No space left on device\n{COMPILER}"
    assert find_machine_fault(earlier) is None


@given(st.text())
def test_no_log_breaks_the_reader(log: str) -> None:
    find_machine_fault(log)
    assert find_compile_error(log, SOURCE) is None or "FAILED: " in log or "rror" in log


@given(
    st.from_regex(r"[a-z][a-z/_-]{0,20}\.cpp", fullmatch=True),
    st.integers(1, 10**6),
    st.text(st.characters(exclude_categories=("C", "Z")), min_size=1),
)
def test_any_place_is_read_back(file: str, line: int, message: str) -> None:
    log = f"FAILED: [code=1] x.o\nc++ -c {file}\n{SOURCE}/{file}:{line}:7: error: {message}\n"
    assert find_compile_error(log, SOURCE) == CompileError(file, line, message)
