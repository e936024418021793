"""Stand-ins (labelled fakes) for llama.cpp's programs: the same options, the same form of output.

`core.cpp` decides what they say; a step that edits it plants a fault for the checks to find.
"""

from __future__ import annotations

from tiny_project import Change

CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(standins CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
add_library(core SHARED core.cpp)
foreach(name llama-results llama-bench test-llama-archs)
    add_executable(${name} ${name}.cpp)
    target_link_libraries(${name} PRIVATE core)
endforeach()
"""
CORE = """\
#include <cmath>
#include <cstdlib>
float logit(int i) { return 0.5f + i; }
int tokens() { return 64; }
const char * state(int arch) { return arch == 2 ? "SKIP" : "OK"; }
double speed() { return 100.0; }
"""
ARCHS = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
const char * state(int arch);
int main() {
    const char * names[] = {"llama", "gemma", "t5", "mamba"};
    std::printf("|%8s|%6s|%6s|%15s|%9s|\n", "Model arch.", "Device", "Config", "NMSE vs. CPU", "R");
    std::printf("|--------|------|------|---------------|---------|\n");
    int ran = 0, bad = 0;
    bool torn = std::fopen("torn-forever", "r") || std::remove("torn") == 0;
    for (int i = 0; i < 4; i++) {
        std::printf("|%8s|%6s|%6s|", names[i], "cpu0", "Dense");
        std::fflush(stdout);
        const char * said = state(i);
        if (!std::strcmp(said, "CRASH")) std::abort();
        if (torn && i == 3) return 0;  // what the logger of llama.cpp does now and then
        std::printf("\033[1;32m%s\033[0m (0.00e+00)|\033[1;33mSKIP\033[0m|\n", said);
        ran += std::strcmp(said, "SKIP") != 0;
        bad += std::strcmp(said, "FAIL") == 0;
    }
    if (!ran) std::printf("Summary: no tests executed\n");
    else if (!bad) std::printf("Summary: all %d test(s) passed\n", ran);
    else std::printf("Summary: %d test(s) executed, %d failed\n", ran, bad);
    return bad != 0;
}
"""
RESULTS = r"""
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>
float logit(int i);
int tokens();
int main(int argc, char ** argv) {
    const char * out = nullptr;
    bool check = false;
    for (int i = 1; i < argc; i++) {
        if (!std::strcmp(argv[i], "-o")) out = argv[++i];
        if (!std::strcmp(argv[i], "--check")) check = true;
    }
    if (!out) return 1;
    std::vector<float> mine, disk(tokens());
    for (int i = 0; i < tokens(); i++) mine.push_back(logit(i));
    if (!check) {
        FILE * file = std::fopen(out, "wb");
        std::fwrite(mine.data(), sizeof(float), mine.size(), file);
        std::fclose(file);
        return 0;
    }
    FILE * file = std::fopen(out, "rb");
    if (std::fread(disk.data(), sizeof(float), disk.size(), file) != disk.size()) return 134;
    double error = 0, norm = 0;
    for (size_t i = 0; i < mine.size(); i++) {
        error += (disk[i] - mine[i]) * (disk[i] - mine[i]);
        norm += disk[i] * disk[i];
    }
    if (std::remove("torn-number") != 0) std::fprintf(stderr, "main: NMSE=%.3e\n", error / norm);
    std::puts(error / norm > 1e-6 ? "\033[1;31mFAIL\033[0m" : "\033[1;32mOK\033[0m");
    return error / norm > 1e-6;
}
"""
BENCH = r"""
#include <cstdio>
double speed();
int main() {
    if (speed() < 0) return 1;
    if (speed() == 0) return 0;
    std::printf("{\"n_prompt\": 64, \"n_gen\": 0, \"avg_ts\": %f}\n", speed());
    std::printf("{\"n_prompt\": 0, \"n_gen\": 16, \"avg_ts\": %f}\n", speed() / 2);
}
"""
BASE: dict[str, str | None] = {
    "CMakeLists.txt": CMAKE,
    "core.cpp": CORE,
    "llama-results.cpp": RESULTS,
    "llama-bench.cpp": BENCH,
    "test-llama-archs.cpp": ARCHS,
    "README.md": "nothing that is compiled\n",
}
TARGETS = ("llama-results", "llama-bench", "test-llama-archs", "test-quantize-fns")


def change_core(name: str, old: str, new: str) -> Change:
    """A step that replaces one line of what the base says."""
    assert old in CORE
    return Change(name, {"core.cpp": CORE.replace(old, new)})
