// Every byte pattern of the six ROCmFPx types, decoded by a backend, against the C decoder, bit by bit.
//   exact [COLUMNS [DEVICE [PATH]]]: get_rows, mat-vec of 1 and of COLUMNS (8), matmul, matmul-id, or only PATH, on the
//   first device whose name starts with DEVICE (Vulkan); the activations pick one weight each
#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

static const ggml_type TYPES[] = { GGML_TYPE_Q4_0_ROCMFP4, GGML_TYPE_Q4_0_ROCMFP4_FAST, GGML_TYPE_Q6_0_ROCMFPX,
                                   GGML_TYPE_Q8_0_ROCMFPX, GGML_TYPE_Q3_0_ROCMFPX, GGML_TYPE_Q2_0_ROCMFPX };

static ggml_backend_t open_device(const char * name) {
    for (size_t i = 0; i < ggml_backend_dev_count(); ++i) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        if (strncmp(ggml_backend_dev_name(dev), name, strlen(name)) == 0) {
            printf("%s: %s\n", ggml_backend_dev_name(dev), ggml_backend_dev_description(dev));
            return ggml_backend_dev_init(dev, nullptr);
        }
    }
    return nullptr;
}

int main(int argc, char ** argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    ggml_backend_load_all();
    const char * name = argc > 2 ? argv[2] : "Vulkan";
    ggml_backend_t backend = open_device(name);
    if (!backend) { printf("no %s device\n", name); return 3; }
    const int several = argc > 1 ? atoi(argv[1]) : 8;
    const int64_t K = 32, rows = 512;
    int bad = 0;
    for (ggml_type type : TYPES) {
        const size_t bytes = ggml_row_size(type, K);
        std::vector<uint8_t> raw(bytes * rows);
        std::mt19937 gen(7);
        for (auto & b : raw) { b = (uint8_t) gen(); }
        const int nscale = (type == GGML_TYPE_Q4_0_ROCMFP4_FAST || type == GGML_TYPE_Q8_0_ROCMFPX) ? 1 : 2;
        for (int64_t r = 0; r < rows; ++r) { // every scale byte, the invalid ones too, sixteen times
            for (int s = 0; s < nscale; ++s) { raw[r * bytes + bytes - 1 - s] = (uint8_t) (s ? 255 - r % 256 : r % 256); }
        }
        std::vector<float> want(K * rows);
        ggml_get_type_traits(type)->to_float(raw.data(), want.data(), K * rows);

        for (const char * path : { "get_rows", "mat-vec", "mat-vec, columns", "matmul", "matmul-id" }) {
            if (argc > 3 && strcmp(path, argv[3])) { continue; }
            ggml_init_params params = { ggml_tensor_overhead() * 32 + ggml_graph_overhead(), nullptr, true };
            ggml_context * ctx = ggml_init(params);
            const bool id = !strcmp(path, "matmul-id");
            ggml_tensor * a = id ? ggml_new_tensor_3d(ctx, type, K, rows, 1) : ggml_new_tensor_2d(ctx, type, K, rows);
            ggml_tensor * index = nullptr, * b = nullptr, * out = nullptr;
            const bool get = !strcmp(path, "get_rows");
            const int columns = !strcmp(path, "mat-vec") ? 1 : !strcmp(path, "mat-vec, columns") ? several : 32;
            if (get) {
                index = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, rows);
                out = ggml_get_rows(ctx, a, index);
            } else if (id) {
                b = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, K, 1, K);
                index = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, 1, K);
                out = ggml_mul_mat_id(ctx, a, b, index);
            } else {
                b = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, K, columns);
                out = ggml_mul_mat(ctx, a, b);
            }
            if (!ggml_backend_supports_op(backend, out)) { printf("%s %s: not supported\n", ggml_type_name(type), path); ++bad; ggml_free(ctx); continue; }
            ggml_cgraph * graph = ggml_new_graph_custom(ctx, 16, false);
            ggml_build_forward_expand(graph, out);
            ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
            ggml_backend_tensor_set(a, raw.data(), 0, raw.size());
            std::vector<int32_t> numbers(rows);
            for (int64_t r = 0; r < rows; ++r) { numbers[r] = get ? (int32_t) r : 0; }
            if (index) { ggml_backend_tensor_set(index, numbers.data(), 0, ggml_nbytes(index)); }
            size_t zeros = 0, differ = 0, seen = 0;
            double worst = 0;
            for (int first = 0; first < (get ? 1 : (int) K); first += get ? 1 : columns) {
                if (b) {
                    std::vector<float> one(ggml_nelements(b), 0.0f);
                    for (int c = 0; c < columns; ++c) { one[c * K + first + c] = 1.0f; }
                    ggml_backend_tensor_set(b, one.data(), 0, ggml_nbytes(b));
                }
                ggml_backend_graph_compute(backend, graph);
                std::vector<float> got(ggml_nelements(out));
                ggml_backend_tensor_get(out, got.data(), 0, ggml_nbytes(out));
                for (int64_t r = 0; r < rows; ++r) {
                    for (int c = 0; c < (get ? (int) K : columns); ++c) {
                        const float w = want[r * K + first + c], g = get ? got[r * K + c] : got[c * rows + r];
                        ++seen;
                        if (memcmp(&w, &g, 4) != 0) {
                            if (w == 0 && g == 0) { ++zeros; }
                            else { if (!differ) { printf("  row %d element %d scale %02x: %a, want %a\n", (int) r, first + c, raw[(r + 1) * bytes - 1], g, w); } ++differ; worst = std::max(worst, (double) std::fabs(w - g)); }
                        }
                    }
                }
            }
            printf("%-18s %-18s %zu values, %zu differ (worst %g), %zu zeros of the other sign\n", ggml_type_name(type), path, seen, differ, worst, zeros);
            bad += differ > 0 || seen == 0;
            ggml_backend_buffer_free(buffer);
            ggml_free(ctx);
        }
    }
    ggml_backend_free(backend);
    printf("%s\n", bad ? "FAIL" : "equal");
    return bad ? 1 : 0;
}
