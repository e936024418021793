// ggml-cuda's functions for the ROCmFPx types, compiled as plain C++ (cuda_on_host.h), against
// integers and ggml's own decoder. Which part is compiled: DECODE, DOT or TILES.
//
//   decode       every code at every place with every scale byte: to_fp32, to_fp16, to_bf16, get_rows
//   vectors      lines "TYPE HEX" from the standard input, decoded: the bits of each value
//   dot N SEED   the mat-vec's dot products, in the order of one thread after the other
//   tiles SEED   the matmul's tiles of weights; without TURING_MMA_AVAILABLE its dot products as well
//
// Prints one JSON object: cases, failures and the first failure. Compile without FMA contraction.
#ifdef DECODE
#include "convert.cuh"
#include "getrows.cuh"
#elif defined(DOT)
#include "mmvq_head.cuh"
#else
#include "mmq.cuh"
#endif

#include "ggml-cpu.h"
#include "rocmfpx_judge.h"

#include <cstdio>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

// the host's side, never called
int  ggml_cuda_get_device() { abort(); }
void ggml_cuda_set_device(int) { abort(); }
const ggml_cuda_device_info & ggml_cuda_info() { abort(); }
void ggml_cuda_error(const char *, const char *, const char *, int, const char *) { abort(); }


struct format {
    ggml_type    type;
    const char * name;
    int          bits;

    size_t size() const { return ggml_type_size(type); }
    int    codes() const { return 32*bits/8; } // bytes, the scales follow
    bool   nibbles() const { return bits == 4; }
};

static const format FORMATS[] = {
    { GGML_TYPE_Q4_0_ROCMFP4,      "q4_0_rocmfp4",      4 },
    { GGML_TYPE_Q4_0_ROCMFP4_FAST, "q4_0_rocmfp4_fast", 4 },
    { GGML_TYPE_Q6_0_ROCMFPX,      "q6_0_rocmfpx",      6 },
    { GGML_TYPE_Q8_0_ROCMFPX,      "q8_0_rocmfpx",      8 },
    { GGML_TYPE_Q3_0_ROCMFPX,      "q3_0_rocmfpx",      3 },
    { GGML_TYPE_Q2_0_ROCMFPX,      "q2_0_rocmfpx",      2 },
};

using bytes = std::vector<uint8_t>;

static float scale_of(const format & f, const uint8_t * block, int i) {
    const int scales = f.size() - f.codes();
    return scale_of(block[f.codes() + i*scales/32]);
}

static row decode(const format & f, const bytes & x) {
    row y(x.size()/f.size()*32);
    ggml_get_type_traits(f.type)->to_float(x.data(), y.data(), y.size());
    return y;
}

// the integers behind the scales: what a scale of 1 gives
static row integers(const format & f, bytes x) {
    for (size_t i = 0; i < x.size(); i++) {
        x[i] = (int) (i % f.size()) < f.codes() ? x[i] : 0x40;
    }
    return decode(f, x);
}

#ifdef DECODE
static void put(const format & f, uint8_t * block, int i, int code) {
    if (f.nibbles()) {
        block[i%16] |= code << i/16*4;
        return;
    }
    for (int b = 0; b < f.bits; b++) {
        block[(i*f.bits + b)/8] |= (code >> b & 1) << (i*f.bits + b)%8;
    }
}

static bytes all_blocks(const format & f) {
    const int codes = 1 << f.bits;
    bytes x(256*codes*f.size(), 0);
    for (int n = 0; n < 256*codes; n++) {
        uint8_t * block = x.data() + n*f.size();
        for (int i = 0; i < 32; i++) {
            put(f, block, i, (n + i) % codes);
        }
        for (size_t s = f.codes(); s < f.size(); s++) {
            block[s] = (n/codes)*(s == (size_t) f.codes() ? 1 : 77); // every byte in both halves
        }
    }
    return x;
}

template <typename T> static void compare(tally & t, const format & f, const char * what, const std::vector<T> & got, const row & wanted) {
    for (size_t i = 0; i < wanted.size(); i++) {
        const T one = wanted[i];
        t.count(memcmp(&got[i], &one, sizeof(T)) == 0, std::string(what) + " " + f.name + " value " + std::to_string(i));
    }
}

static row get_rows(const format & f, const bytes & x, int blocks) {
    const int rows = x.size()/f.size()/blocks, n = 32*blocks;
    std::vector<int32_t> ids(rows);
    for (int r = 0; r < rows; r++) {
        ids[r] = rows - 1 - r;
    }
    row y(rows*n);
    get_rows_cuda(x.data(), f.type, ids.data(), y.data(), GGML_TYPE_F32, n, blocks*f.size(), x.size(), x.size(),
        rows, 1, 1, 4, 4*rows, 4*rows, 4*n, 4*y.size(), 4*y.size(), nullptr);
    row back;
    for (int r = 0; r < rows; r++) {
        back.insert(back.end(), y.end() - (r + 1)*n, y.end() - r*n);
    }
    return back;
}

static void run_decode(tally & t) {
    for (const format & f : FORMATS) {
        const bytes x = all_blocks(f);
        const row wanted = decode(f, x);
        row y(wanted.size());
        ggml_get_to_fp32_cuda(f.type)(x.data(), y.data(), y.size(), nullptr);
        compare(t, f, "to_fp32", y, wanted);
        compare(t, f, "get_rows", get_rows(f, x, 8), wanted);
        compare(t, f, "get_rows of one block", get_rows(f, x, 1), wanted);
        std::vector<half> h(wanted.size());
        ggml_get_to_fp16_cuda(f.type)(x.data(), h.data(), h.size(), nullptr);
        compare(t, f, "to_fp16", h, wanted);
        std::vector<nv_bfloat16> b(wanted.size());
        ggml_get_to_bf16_cuda(f.type)(x.data(), b.data(), b.size(), nullptr);
        compare(t, f, "to_bf16", b, wanted);
    }
}

static void run_vectors() {
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        int type;
        std::string hex;
        words >> type >> hex;
        bytes x;
        for (size_t i = 0; i < hex.size(); i += 2) {
            x.push_back(std::stoi(hex.substr(i, 2), nullptr, 16));
        }
        row y(x.size()/ggml_type_size((ggml_type) type)*32);
        ggml_get_to_fp32_cuda((ggml_type) type)(x.data(), y.data(), y.size(), nullptr);
        for (float v : y) {
            printf("%08x", __float_as_uint(v));
        }
        printf("\n");
    }
}
#endif

#ifndef DECODE
// exact: scales and activations with which every partial sum is a float
struct draw {
    std::mt19937 generator;
    bool         exact;

    int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); }
    int quant() { return exact ? between(-15, 15) : between(-127, 127); }
    float scale() { return exact ? 1.0f : (float) half(between(1, 4000)/2048.0f); }

    bytes blocks(const format & f, int n) {
        bytes x(n*f.size());
        for (size_t i = 0; i < x.size(); i++) {
            x[i] = between(0, 255);
            if ((int) (i % f.size()) >= f.codes()) {
                x[i] = exact ? between(0x40, 0x47) : between(0, 9) ? between(0, 0x7E) : between(0x7F, 0xFF);
            }
        }
        return x;
    }
};

// what it should be, and the sum of what was added, as a measure of the rounding
struct expected {
    double value = 0, size = 0;

    void add(double x) { value += x, size += std::fabs(x); }
    bool holds(float got, bool exact) const {
        return exact ? same_bits(got, (float) value) : std::fabs(got - value) <= 1e-5*size;
    }
};
#endif

#ifdef DOT
template <ggml_type type> static float mat_vec(const bytes & x, const std::vector<block_q8_1> & y) {
    constexpr int qi = ggml_cuda_type_traits<type>::qi, vdr = get_vdr_mmvq(type);
    float sum = 0;
    for (size_t tid = 0; tid < y.size()*(qi/vdr); tid++) {
        const int kbx = tid/(qi/vdr), kqs = vdr*(tid % (qi/vdr));
        sum += get_vec_dot_q_cuda(type)(x.data(), &y[kbx], kbx, kqs);
    }
    return sum;
}

static float mat_vec(ggml_type type, const bytes & x, const std::vector<block_q8_1> & y) {
    switch (type) {
        case GGML_TYPE_Q4_0_ROCMFP4:      return mat_vec<GGML_TYPE_Q4_0_ROCMFP4>(x, y);
        case GGML_TYPE_Q4_0_ROCMFP4_FAST: return mat_vec<GGML_TYPE_Q4_0_ROCMFP4_FAST>(x, y);
        case GGML_TYPE_Q6_0_ROCMFPX:      return mat_vec<GGML_TYPE_Q6_0_ROCMFPX>(x, y);
        case GGML_TYPE_Q8_0_ROCMFPX:      return mat_vec<GGML_TYPE_Q8_0_ROCMFPX>(x, y);
        case GGML_TYPE_Q3_0_ROCMFPX:      return mat_vec<GGML_TYPE_Q3_0_ROCMFPX>(x, y);
        default:                          return mat_vec<GGML_TYPE_Q2_0_ROCMFPX>(x, y);
    }
}

static void judge_dot(tally & t, const format & f, draw & d) {
    const int n = d.between(1, 17);
    const bytes x = d.blocks(f, n);
    const row q = integers(f, x);
    std::vector<block_q8_1> y(n);
    std::vector<block_q8_0> y0(n);
    expected wanted;
    for (int b = 0; b < n; b++) {
        y[b].ds = { d.scale(), NAN }; // the sum is of no use here
        y0[b].d = y[b].ds.x;
        for (int i = 0; i < 32; i++) {
            y[b].qs[i] = y0[b].qs[i] = d.quant();
            wanted.add((double) q[32*b + i]*y[b].qs[i]*scale_of(f, x.data() + b*f.size(), i)*(float) y[b].ds.x);
        }
    }
    const float got = mat_vec(f.type, x, y);
    const std::string what = std::string(f.name) + (d.exact ? " exact, " : ", ") + std::to_string(n) + " blocks: ";
    t.count(wanted.holds(got, d.exact), what + std::to_string(got) + ", wanted " + std::to_string(wanted.value));
    float cpu;
    ggml_get_type_traits_cpu(f.type)->vec_dot(32*n, &cpu, 0, x.data(), 0, y0.data(), 0, 1);
    t.count(std::fabs(got - cpu) <= 2e-5*wanted.size, what + std::to_string(got) + ", the CPU " + std::to_string(cpu));
}

static void run_dot(tally & t, int count, int seed) {
    for (const format & f : FORMATS) {
        for (bool exact : { true, false }) {
            draw d{ std::mt19937(seed), exact };
            for (int n = 0; n < count; n++) {
                judge_dot(t, f, d);
            }
        }
    }
}
#endif

#ifdef TILES
static const int K = 256;

template <typename F> static void each_thread(int warps, F f) {
    for (threadIdx = { 0, 0, 0 }; (int) threadIdx.y < warps; threadIdx.y++) {
        for (threadIdx.x = 0; threadIdx.x < 32; threadIdx.x++) {
            f(32*threadIdx.y + threadIdx.x);
        }
    }
}

struct problem {
    const format & f;
    int            blocks; // of a row
    bytes          x;
    row            q;

    int   code(int i, int k) const { return q[32*blocks*i + k]; }
    float scale(int i, int k) const { return scale_of(f, x.data() + (blocks*i + k/32)*f.size(), k % 32); }
};

template <ggml_type type, int J, bool fallback>
static void judge_tile(tally & t, const problem & p, const int * tile, int kb0, int last) {
    const int per_scale = p.f.size() - p.f.codes() == 2 ? 16 : 32, scales = K/per_scale;
#ifdef TURING_MMA_AVAILABLE
    constexpr int stride = ggml_cuda_mmq_get_sram_stride(type, J, fallback, GGML_PREC_Q8);
    const float * df = (const float *) tile + 2*MMQ_TILE_NE_K;
    const auto scale_at = [&](int i, int s) { return i*stride + s; };
#else
    constexpr int stride = 2*MMQ_TILE_NE_K + 1;
    const float * df = (const float *) tile + ggml_cuda_mmq_get_I(type, J, fallback, GGML_PREC_Q8)*stride;
    const auto scale_at = [&](int i, int s) { return i*scales + i/(32/scales) + s; };
#endif
    for (int i = 0; i <= last; i++) { // rows after the last one are not written
        for (int k = 0; k < K; k++) {
            const int got = ((const int8_t *) (tile + i*stride))[k];
            t.count(got == p.code(i, 32*kb0 + k), std::string("tile of ") + p.f.name + ", row " + std::to_string(i) + " code " + std::to_string(k) + ": " + std::to_string(got));
        }
        for (int s = 0; s < scales; s++) {
            const bool holds = same_bits(df[scale_at(i, s)], p.scale(i, 32*kb0 + s*per_scale));
            t.count(holds, std::string("tile of ") + p.f.name + ", scale " + std::to_string(s));
        }
    }
}

template <ggml_type type, int J, bool fallback> static void judge_matmul(tally & t, const format & f, draw & d) {
    constexpr ggml_cuda_mmq_config config = ggml_cuda_mmq_get_config(type, J, fallback, GGML_PREC_Q8);
    if (config.type == GGML_TYPE_COUNT) {
        t.count(false, std::string(f.name) + ": no config");
        return;
    }
    t.count(mmq_get_q8_1_ds_layout(type) == MMQ_Q8_1_DS_LAYOUT_D4, std::string(f.name) + ": layout of the activations");
    constexpr int I = config.I, warps = config.nthreads/32;
    const int blocks = 2*K/32, last = fallback ? I/2 + 1 : I - 1, columns = J - 3;
    problem p = { f, blocks, d.blocks(f, blocks*(last + 1)), {} };
    p.q = integers(f, p.x);

    std::vector<block_q8_1_mmq> y(J*(2*K/128)); // as the kernel wants it: 128 values of each column
    for (auto & each : y) {
        for (int i = 0; i < 128; i++) {
            each.qs[i] = d.quant();
            each.d4[i/32] = i%32 ? each.d4[i/32] : d.scale();
        }
    }
    std::vector<int> tile(2*I*(2*MMQ_TILE_NE_K + MMQ_TILE_NE_K), 0x7F7F7F7F);
    std::vector<row> sums(32*warps, row(J*I/(32*warps), 0));
    for (int kb0 = 0; kb0 < blocks; kb0 += K/32) {
        each_thread(warps, [&](int) {
            ggml_cuda_mmq_get_load_tiles<type, J, fallback, GGML_PREC_Q8>()((const char *) p.x.data(), tile.data(), kb0, last, blocks);
        });
        judge_tile<type, J, fallback>(t, p, tile.data(), kb0, last);
#ifndef TURING_MMA_AVAILABLE
        for (int part = 0; part < 2; part++) {
            each_thread(warps, [&](int thread) {
                ggml_cuda_mmq_get_vec_dot<type, J, fallback, GGML_PREC_Q8>()(
                    tile.data(), (const int *) (y.data() + J*(kb0*32/128 + part)), sums[thread].data(), part*MMQ_TILE_NE_K);
            });
        }
#endif
    }
#ifndef TURING_MMA_AVAILABLE
    std::vector<int> ids(J);
    for (int j = 0; j < J; j++) {
        ids[j] = J - 1 - j;
    }
    row dst(J*I, NAN);
    each_thread(warps, [&](int thread) {
        ggml_cuda_mmq_get_write_back<type, J, fallback, GGML_PREC_Q8>()(sums[thread].data(), ids.data(), dst.data(), nullptr, I, last, columns - 1);
    });
    for (int j = 0; j < columns; j++) {
        for (int i = 0; i <= last; i++) {
            expected wanted;
            for (int k = 0; k < 2*K; k++) {
                const block_q8_1_mmq & part = y[J*(k/128) + j];
                wanted.add((double) p.code(i, k)*part.qs[k%128]*p.scale(i, k)*part.d4[k%128/32]);
            }
            const float got = dst[ids[j]*I + i];
            t.count(wanted.holds(got, d.exact), std::string("matmul ") + f.name + ": " + std::to_string(got) + ", wanted " + std::to_string(wanted.value));
        }
    }
#endif
}

template <ggml_type type> static void judge_type(tally & t, const format & f, int seed) {
    for (bool exact : { true, false }) {
        draw d{ std::mt19937(seed), exact };
        judge_matmul<type, 8,  false>(t, f, d);
        judge_matmul<type, 8,  true >(t, f, d);
        judge_matmul<type, 64, false>(t, f, d);
        judge_matmul<type, 64, true >(t, f, d);
    }
}

static void run_tiles(tally & t, int seed) {
    judge_type<GGML_TYPE_Q4_0_ROCMFP4>(t, FORMATS[0], seed);
    judge_type<GGML_TYPE_Q4_0_ROCMFP4_FAST>(t, FORMATS[1], seed);
    judge_type<GGML_TYPE_Q6_0_ROCMFPX>(t, FORMATS[2], seed);
}
#endif

int main(int argc, char ** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    [[maybe_unused]] const auto number = [&](int i) { return argc > i ? atoi(argv[i]) : 1; };
    tally t;
    ggml_cpu_init();
#ifdef DECODE
    if (mode == "vectors") {
        run_vectors();
        return 0;
    }
    run_decode(t);
#elif defined(DOT)
    run_dot(t, number(2), number(3));
#else
    run_tiles(t, number(2));
#endif
    return t.report();
}
