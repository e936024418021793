// LD_PRELOAD for `test-backend-ops perf`: quantise the first rows of a chunk and repeat them.
//
// Perf mode quantises 58.7M random weights on the CPU before each case (3 s for iq3_s), which spends the machine's time
// and leaves the GPU idle before the clock starts. Both arms get the same treatment. Times with and without it are not
// comparable: iq3_s at 8 columns on an H200 took 171 us with it and 204 to 228 us without, and whether that is the idle
// GPU or the repeated weights was not settled. Never used for the numerics.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stddef.h>
#include <string.h>

#ifndef VALUES
#define VALUES 262144 // quantised for real, at least
#endif

typedef size_t (*quantize_fn)(int type, const float * src, void * dst, int64_t start, int64_t nrows, int64_t n_per_row, const float * imatrix);

size_t ggml_quantize_chunk(int type, const float * src, void * dst, int64_t start, int64_t nrows, int64_t n_per_row, const float * imatrix) {
    static quantize_fn real;
    if (!real) {
        real = (quantize_fn) dlsym(RTLD_NEXT, "ggml_quantize_chunk");
    }
    int64_t n_real = (VALUES + n_per_row - 1) / n_per_row;
    if (n_real > nrows) {
        n_real = nrows;
    }
    const size_t size_real = real(type, src, dst, start, n_real, n_per_row, imatrix);
    const size_t row       = size_real / n_real;
    const size_t size      = row * nrows;
    char * out = (char *) dst + start / n_per_row * row;
    for (size_t at = size_real; at < size; at += size_real) {
        memcpy(out + at, out, size - at < size_real ? size - at : size_real);
    }
    return size;
}
