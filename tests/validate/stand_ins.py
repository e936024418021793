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
foreach(name llama-results llama-bench llama-perplexity test-llama-archs)
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
double speed() { return 1e6; }
const char * gpu() { return ""; }
const char * devices() { return "  (none)"; }
int splits() { return 1; }
const char * offloaded() { return ""; }
const char * extra() { return ""; }
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
#include <cstdlib>
#include <cstring>
#include <string>
double speed();
const char * gpu();
const char * devices();
int splits();
const char * offloaded();
const char * extra();
static void row(int p, int n, const char * dev, const char * ngl, const char * t) {
    long long ns = (long long) ((p + n) / speed() * 1e9);
    std::printf("{\"build_commit\": \"lab\", \"cpu_info\": \"a stand-in\", ");
    std::printf("\"backends\": \"CPU\", \"model_type\": \"a stand-in\", \"model_size\": 1048576, ");
    std::printf("\"model_n_params\": 1000000, ");
    std::printf("\"gpu_info\": \"%s\", \"n_batch\": 2048, \"n_ubatch\": 512, ", gpu());
    std::printf("\"n_threads\": %s, \"type_k\": \"f16\", ", t);
    std::printf("\"type_v\": \"f16\", \"n_gpu_layers\": %s, \"flash_attn\": 0, ", ngl);
    std::printf("\"devices\": \"%s\", \"load_mode\": \"mmap\", \"no_host\": false, ", dev);
    std::printf("\"n_prompt\": %d, \"n_gen\": %d, \"n_depth\": 0, \"avg_ts\": 1.0, ", p, n);
    std::printf("\"samples_ns\": [ %lld ]%s}\n", ns, extra());
}
int main(int argc, char ** argv) {
    const char * dev = "auto", * ngl = "-1", * t = "2", * model = "";
    int p = 512, n = 128;
    bool verbose = false;
    for (int i = 1; i < argc; i++) {
        std::string arg = argv[i];
        if (arg == "--list-devices") return std::printf("Available devices:\n%s\n", devices()) < 0;
        if (arg == "-v") verbose = true;
        if (i + 1 == argc) break;
        if (arg == "-dev") dev = argv[++i];
        else if (arg == "-ngl") ngl = argv[++i];
        else if (arg == "-t") t = argv[++i];
        else if (arg == "-m") model = argv[++i];
        else if (arg == "-p") p = std::atoi(argv[++i]);
        else if (arg == "-n") n = std::atoi(argv[++i]);
    }
    if (std::strstr(model, "broken")) {
        std::fprintf(stderr, "llama_model_load: error loading model: unknown model architecture\n");
        return 1;
    }
    if (verbose) {
        std::fprintf(stderr, "load_tensors: %s\n", offloaded());
        std::fprintf(stderr, "sched_reserve: graph: nodes = 9, splits = %d, x\n", splits());
    }
    if (speed() < 0) return 1;
    if (speed() == 0) return 0;
    if (p) row(p, 0, dev, ngl, t);
    if (n) row(0, n, dev, ngl, t);
}
"""
PERPLEXITY = r"""
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>
float logit(int i);
int main(int argc, char ** argv) {
    const char * path = nullptr;
    bool compare = false;
    for (int i = 1; i < argc; i++) {
        if (!std::strcmp(argv[i], "--kl-divergence-base")) path = argv[++i];
        else if (!std::strcmp(argv[i], "--kl-divergence")) compare = true;
    }
    if (!path) return 1;
    if (compare) {
        std::puts("Mean    KLD: 0.001\nMaximum KLD: 0.1\n99.9%   KLD: 0.01\nSame top p: 99.0");
        return 0;
    }
    const int32_t head[] = {512, 2, 4};  // context, vocabulary, chunks
    std::vector<float> rest(4 * 512 + 4 * 255 * 3);
    for (int i = 0; i < 64; i++) rest.at(rest.size() - 64 + i) = logit(i);
    FILE * file = std::fopen(path, "wb");
    std::fwrite("_logits_", 1, 8, file);
    std::fwrite(head, sizeof(head), 1, file);
    std::fwrite(rest.data(), sizeof(float), rest.size(), file);
    std::fclose(file);
    std::puts("[1]9.0,\nFinal estimate: PPL = 9.0 +/- 1.0");
}
"""
BASE: dict[str, str | None] = {
    "CMakeLists.txt": CMAKE,
    "core.cpp": CORE,
    "llama-results.cpp": RESULTS,
    "llama-bench.cpp": BENCH,
    "llama-perplexity.cpp": PERPLEXITY,
    "test-llama-archs.cpp": ARCHS,
    "README.md": "nothing that is compiled\n",
}
TARGETS = ("llama-results", "llama-bench", "test-llama-archs", "test-quantize-fns")


def change_core(name: str, old: str, new: str) -> Change:
    """A step that replaces one line of what the base says."""
    assert old in CORE
    return Change(name, {"core.cpp": CORE.replace(old, new)})
