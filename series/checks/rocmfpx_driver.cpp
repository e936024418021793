// Judge the ROCmFPx types of a ggml against a second implementation, written from the format's
// description alone and as plainly as possible: every candidate, every element, in the stated order.
//
//   encode N SEED      N random rows of each type, with and without importance: all bytes
//   decode             every code with every scale byte, all bits; NaN and infinity in every place
//   validate           every value of every byte of a block: ggml_validate_row_data
//   dot N SEED         the CPU's dot product with Q8_0 against one in double precision
//   simd N SEED        the same for a build that has scalar ones beside: the two against each other
//   golden             lines "TYPE BYTES DECODED VALUES IMPORTANCE" from the standard input, all but the first in
//                      hexadecimal digits, no importance as "-": encoded, decoded, and both dot products
//   speed MS           ns per 1000 values of the dot product with Q8_0, by type: the median of MS of time each
//   load FILE          read a GGUF, check and decode its tensors; "refused" or "read" goes to stdout
//   fuzz N SEED FILE   the same for N mutations of FILE, in this process
//
// Prints one JSON object: cases, failures and the first failure. Compile without FMA contraction.
#include "ggml-cpu.h"
#include "ggml.h"
#include "gguf.h"
#include "rocmfpx_judge.h"

#include <dlfcn.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

enum kind { FP4, Q3, Q2, Q6, Q8 };

struct format {
    int          id;
    const char * name;
    kind         k;
    int          group;  // values with one scale
    int          bits;
    float        top;
    size_t       bytes;
};

static const format FORMATS[] = {
    { 100, "q4_0_rocmfp4",      FP4, 16, 4, 10,  18 },
    { 101, "q4_0_rocmfp4_fast", FP4, 32, 4, 10,  17 },
    { 102, "q6_0_rocmfpx",      Q6,  16, 6, 31,  26 },
    { 103, "q8_0_rocmfpx",      Q8,  32, 8, 127, 33 },
    { 104, "q3_0_rocmfpx",      Q3,  16, 3, 4,   14 },
    { 107, "q2_0_rocmfpx",      Q2,  16, 2, 4,   10 },
};

static int value_of(const format & f, int code) {
    static const int fp4[] = { 0, 1, 2, 3, 4, 6, 8, 10 }, q3[] = { 0, 1, 2, 4 }, q2[] = { -4, -1, 1, 4 };
    switch (f.k) {
        case FP4: return code < 8 ? fp4[code] : -fp4[code - 8];
        case Q3:  return code < 4 ? q3[code] : -q3[code - 4];
        case Q2:  return q2[code];
        case Q6:  return code == 32 ? -32 : code < 32 ? code : -(code - 32);
        case Q8:  return code < 128 ? code : code - 256;
    }
    return 0;
}

static int code_of(const format & f, float x, float s) {
    if (!std::isfinite(x) || !(s > 0)) {
        return 0;
    }
    const float inv = 1.0f/s;
    const float z   = x*inv;
    const float a   = std::fabs(z);
    int m = 0;
    switch (f.k) {
        case FP4:
            m = a <= 0.5f ? 0 : a <= 1.5f ? 1 : a <= 2.5f ? 2 : a <= 3.5f ? 3 : a <= 5 ? 4 : a <= 7 ? 5 : a <= 9 ? 6 : 7;
            return m + (m > 0 && x < 0 ? 8 : 0);
        case Q3:
            m = a <= 0.5f ? 0 : a <= 1.5f ? 1 : a <= 3 ? 2 : 3;
            return m + (m > 0 && x < 0 ? 4 : 0);
        case Q2:
            return std::signbit(x) ? (a > 2.5f ? 0 : 1) : (a > 2.5f ? 3 : 2);
        case Q6: {
            const double q = std::fmin(std::fmax(std::round((double) z), -32.0), 31.0);
            return q >= 0 ? (int) q : 32 | ((int) -q % 32);
        }
        case Q8: {
            const double q = std::fmin(std::fmax(std::round((double) z), -127.0), 127.0);
            return (int) q & 255;
        }
    }
    return 0;
}

static int nearest(const format & f, float t) {
    if (!(t > 0) || !std::isfinite(t)) {
        return f.k == FP4 ? 1 : 0;
    }
    int b = 126;
    for (int i = 126; i >= 1; i--) {
        b = scale_of(i) >= t ? i : b;
    }
    if (b == 1) {
        return 1;
    }
    const float below = t - scale_of(b - 1), above = scale_of(b) - t;
    return below <= above ? b - 1 : b;
}

static float error_of(const format & f, const float * x, const float * w, int e) {
    float err = 0;
    for (int i = 0; i < f.group; i++) {
        if (f.k != FP4 && !std::isfinite(x[i])) {
            continue;
        }
        const float y = (float) value_of(f, code_of(f, x[i], scale_of(e)))*scale_of(e);
        const float d = x[i] - y;
        const float t = w ? (w[i]*d)*d : d*d;
        err = err + t;
    }
    return err;
}

static int search(const format & f, const float * x, const float * w) {
    float max = 0, wmax = 0;
    for (int i = 0; i < f.group; i++) {
        if (std::fabs(x[i]) > max && (f.k == FP4 || std::isfinite(x[i]))) {
            max = std::fabs(x[i]);
        }
    }
    if (!(max > 0) || !std::isfinite(max)) {
        return 0;
    }
    if (f.k == Q8 && !w) {
        return nearest(f, max/127.0f);
    }
    for (int i = 0; w && i < f.group; i++) {
        wmax = std::fabs(x[i]) == max && w[i] > wmax ? w[i] : wmax;
    }
    const int start = nearest(f, max/f.top);
    int   best     = f.k == FP4 ? 0 : start;
    float best_err = f.k == FP4 ? FLT_MAX : INFINITY;
    const auto evaluate = [&](int b) {
        const float err = error_of(f, x, w, b);
        if (err < best_err || (err == best_err && b < best)) {
            best     = b;
            best_err = err;
        }
    };
    bool stopped = false;
    for (int delta = 0; delta <= 125; delta++) {
        const int lo = start - delta, hi = start + delta;
        if (!stopped && lo >= 1 && lo <= 126) {
            const float reach   = f.top*scale_of(lo);
            const float c       = max - reach;
            const float penalty = w ? (wmax*c)*c : c*c;
            const bool  prune   = c > 0 && penalty > best_err && !(f.k == FP4 && w && !(wmax > 0));
            stopped = prune;
            if (!prune) {
                evaluate(lo);
            }
        }
        if (delta > 0 && hi >= 1 && hi <= 126) {
            evaluate(hi);
        }
    }
    return best;
}

static std::vector<uint8_t> pack(const format & f, const std::vector<int> & codes, const std::vector<int> & scales) {
    std::vector<uint8_t> out(f.bytes, 0);
    for (int i = 0; i < 32; i++) {
        if (f.k == FP4) {
            out[i % 16] |= codes[i] << (i < 16 ? 0 : 4);
            continue;
        }
        for (int b = 0; b < f.bits; b++) {
            out[(i*f.bits + b)/8] |= ((codes[i] >> b) & 1) << ((i*f.bits + b) % 8);
        }
    }
    for (size_t g = 0; g < scales.size(); g++) {
        out[4*f.bits + g] = scales[g];
    }
    return out;
}

static std::vector<uint8_t> encode(const format & f, const row & x, const float * qw) {
    float sum = 0;
    for (float v : x) {
        if (f.k == FP4 || std::isfinite(v)) {
            const float square = v*v;
            sum = sum + square;
        }
    }
    const float sigma2 = sum/(float) x.size();

    row w(x.size());
    for (size_t i = 0; qw && i < x.size(); i++) {
        const float square = x[i]*x[i];
        const bool  used   = std::isfinite(qw[i]) && qw[i] > 0 && (f.k == FP4 || std::isfinite(x[i]));
        w[i] = used ? qw[i]*std::sqrt(sigma2 + square) : 0;
    }
    std::vector<uint8_t> out;
    for (size_t i = 0; i < x.size(); i += 32) {
        std::vector<int> codes(32), scales;
        for (int g = 0; g < 32; g += f.group) {
            scales.push_back(search(f, &x[i + g], qw ? &w[i + g] : nullptr));
            for (int j = g; j < g + f.group; j++) {
                codes[j] = code_of(f, x[i + j], scale_of(scales.back()));
            }
        }
        const auto block = pack(f, codes, scales);
        out.insert(out.end(), block.begin(), block.end());
    }
    return out;
}

static std::string hex(const std::vector<uint8_t> & bytes) {
    std::ostringstream text;
    for (uint8_t b : bytes) {
        char two[4];
        snprintf(two, sizeof(two), "%02x", b);
        text << two;
    }
    return text.str();
}

// --- encode --------------------------------------------------------------------------------------

using generator = std::mt19937;

static float normal(generator & rng) {
    return std::normal_distribution<float>()(rng);
}

static float uniform(generator & rng, float a, float b) {
    return std::uniform_real_distribution<float>(a, b)(rng);
}

// weights of many sizes and shapes: bells, outliers, exact levels (ties), grids, zeros, limits
static row random_row(generator & rng, size_t n) {
    row x(n);
    const float size = std::ldexp(1.0f, (int) uniform(rng, -14, 12));
    const int   shape = rng() % 8;
    for (size_t i = 0; i < n; i++) {
        const float level = (float) ((int) (rng() % 67) - 33);
        switch (shape) {
            case 0: case 1: case 2: x[i] = normal(rng)*size; break;
            case 3: x[i] = normal(rng)*size*(rng() % 16 ? 1 : 20); break;
            case 4: x[i] = level/2*scale_of(rng() % 3 ? 0x30 : 0x2c); break;
            case 5: x[i] = level*size/16; break;
            case 6: x[i] = rng() % 4 ? 0.0f : normal(rng)*size; break;
            case 7: x[i] = std::ldexp(normal(rng), (int) (rng() % 40) - 30); break;
        }
        x[i] = rng() % 64 ? x[i] : -0.0f;
    }
    return x;
}

static row random_importance(generator & rng, size_t n) {
    row w(n);
    const int shape = rng() % 4;
    for (float & v : w) {
        v = shape == 0 ? 1.0f : shape == 1 ? std::exp(2*normal(rng)) : shape == 2 ? uniform(rng, 0, 1) : (float) (rng() % 3);
        v = rng() % 128 ? v : -1.0f;
        v = rng() % 256 ? v : NAN;
    }
    return w;
}

static void judge_row(tally & t, const format & f, const row & x, const float * w) {
    std::vector<uint8_t> out(x.size()/32*f.bytes);
    ggml_quantize_chunk((ggml_type) f.id, x.data(), out.data(), 0, 1, x.size(), w);
    const auto wanted = encode(f, x, w);
    t.count(out == wanted, std::string(f.name) + (w ? " with importance: " : ": ") + hex(out) + ", wanted " + hex(wanted));
    t.count(ggml_validate_row_data((ggml_type) f.id, out.data(), out.size()), std::string(f.name) + ": own bytes are invalid");
}

static void run_encode(tally & t, int n, int seed) {
    generator rng(seed);
    for (int i = 0; i < n; i++) {
        row x = random_row(rng, 32*(1 + rng() % 3));
        row w = random_importance(rng, x.size());
        if (rng() % 16 == 0) {
            const float odd[] = { NAN, -NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 1e30f, FLT_TRUE_MIN, 1e-30f, 3000, -300000 };
            x[rng() % x.size()] = odd[rng() % 11];
        }
        for (const format & f : FORMATS) {
            // quotients beyond 2^31 are undefined in the description
            const bool huge = [&] { for (float v : x) { if (std::isfinite(v) && std::fabs(v) > 1e8f) { return true; } } return false; }();
            if (!(huge && (f.k == Q6 || f.k == Q8))) {
                judge_row(t, f, x, nullptr);
                judge_row(t, f, x, w.data());
            }
        }
    }
}

// --- decode and validate -------------------------------------------------------------------------

static row decode(const format & f, const std::vector<uint8_t> & block) {
    row y(block.size()/f.bytes*32);
    ggml_get_type_traits((ggml_type) f.id)->to_float(block.data(), y.data(), y.size());
    return y;
}

static void run_decode(tally & t) {
    for (const format & f : FORMATS) {
        const ggml_type type = (ggml_type) f.id;
        t.count(std::string(ggml_type_name(type)) == f.name, std::string("the name of ") + f.name);
        t.count(ggml_type_size(type) == f.bytes && ggml_blck_size(type) == 32, std::string("the size of ") + f.name);
        for (int e = 0; e < 256; e++) {
            for (int first = 0; first < 1 << f.bits; first += 32) {
                std::vector<int> codes(32), scales;
                for (int i = 0; i < 32; i++) {
                    codes[i] = (first + i + (i < 16 ? 0 : e)) & ((1 << f.bits) - 1);
                }
                for (int g = 0; g < 32; g += f.group) {
                    scales.push_back((e + 3*g) & 255);
                }
                const row y = decode(f, pack(f, codes, scales));
                for (int i = 0; i < 32; i++) {
                    const float wanted = (float) value_of(f, codes[i])*scale_of(scales[i/f.group]);
                    t.count(same_bits(y[i], wanted), std::string(f.name) + ": code " + std::to_string(codes[i]) + ", scale " +
                            std::to_string(scales[i/f.group]) + " gives " + std::to_string(y[i]) + ", wanted " + std::to_string(wanted));
                }
            }
        }
    }
}

static void run_validate(tally & t) {
    for (const format & f : FORMATS) {
        const int    n_scales = 32/f.group;
        const size_t codes    = f.bytes - n_scales;
        for (size_t place = 0; place < 2*f.bytes; place++) {
            for (int value = 0; value < 256; value++) {
                std::vector<uint8_t> two(2*f.bytes, 0x11);
                two[place] = value;
                const bool wanted = place % f.bytes < codes || value <= 0x7E;
                const bool valid  = ggml_validate_row_data((ggml_type) f.id, two.data(), two.size());
                t.count(valid == wanted, std::string(f.name) + ": byte " + std::to_string(place) + " = " + std::to_string(value));
            }
        }
        for (size_t size : { f.bytes - 1, f.bytes + 1 }) {
            std::vector<uint8_t> cut(size, 0x11);
            t.count(!ggml_validate_row_data((ggml_type) f.id, cut.data(), size), std::string(f.name) + ": a cut block is valid");
        }
    }
    for (int id : { 43, 44, 99, 105, 106, 108, -1 }) {
        uint8_t bytes[64] = { 0 };
        t.count(!ggml_validate_row_data((ggml_type) id, bytes, sizeof(bytes)), "id " + std::to_string(id) + " is valid");
    }
}

// --- dot -----------------------------------------------------------------------------------------

static std::vector<uint8_t> random_blocks(generator & rng, const format & f, int n, bool valid) {
    std::vector<uint8_t> blocks(n*f.bytes);
    for (size_t i = 0; i < blocks.size(); i++) {
        const bool scale = i % f.bytes >= f.bytes - 32/f.group;
        blocks[i] = scale && valid ? rng() % 0x7F : rng();
    }
    return blocks;
}

// a static build defines its own
extern "C" __attribute__((weak)) void * find_function(const char * name) {
    return dlsym(RTLD_DEFAULT, name);
}

// the scalar function beside the one in use
static ggml_vec_dot_t scalar_of(const format & f) {
    return (ggml_vec_dot_t) find_function((std::string("ggml_vec_dot_") + f.name + "_q8_0_generic").c_str());
}

// of blocks x that mean xf: the dot product in use against double precision, and against the scalar one
static void judge_dot(tally & t, const format & f, const std::vector<uint8_t> & x, const row & xf,
                      const std::vector<uint8_t> & yq, ggml_vec_dot_t scalar) {
    row yf(xf.size());
    ggml_get_type_traits(GGML_TYPE_Q8_0)->to_float(yq.data(), yf.data(), yf.size());
    double wanted = 0, size = 0;
    for (size_t j = 0; j < yf.size(); j++) {
        wanted += (double) xf[j]*yf[j];
        size   += std::fabs((double) xf[j]*yf[j]);
    }
    const std::string what = std::string(f.name) + ", " + std::to_string(xf.size()/32) + " blocks: ";
    float got = NAN, same = NAN;
    ggml_get_type_traits_cpu((ggml_type) f.id)->vec_dot(yf.size(), &got, 0, x.data(), 0, yq.data(), 0, 1);
    if (scalar) {
        scalar(yf.size(), &same, 0, x.data(), 0, yq.data(), 0, 1);
        t.count(std::fabs(got - same) <= 2e-6*size + 1e-30, what + std::to_string(got) + ", scalar " + std::to_string(same));
    }
    t.count(std::fabs(got - wanted) <= 1e-5*size + 1e-30, what + std::to_string(got) + ", wanted " + std::to_string(wanted));
}

static std::vector<uint8_t> random_activations(generator & rng, int n) {
    row y(n);
    for (float & v : y) {
        v = normal(rng)*std::ldexp(1.0f, (int) (rng() % 12) - 6);
    }
    std::vector<uint8_t> yq(ggml_row_size(GGML_TYPE_Q8_0, n));
    ggml_get_type_traits_cpu(GGML_TYPE_Q8_0)->from_float(y.data(), yq.data(), n);
    return yq;
}

static void run_dot(tally & t, int n, int seed, bool against_scalar) {
    generator rng(seed);
    for (const format & f : FORMATS) {
        const auto * cpu = ggml_get_type_traits_cpu((ggml_type) f.id);
        const auto scalar = against_scalar ? scalar_of(f) : nullptr;
        t.count(cpu->vec_dot && cpu->vec_dot_type == GGML_TYPE_Q8_0, std::string(f.name) + ": no dot product with q8_0");
        t.count(!against_scalar || (scalar && scalar != cpu->vec_dot), std::string(f.name) + ": no scalar dot product beside");
        for (int i = 0; cpu->vec_dot && i < n; i++) {
            // all numbers of blocks up to 17, invalid scales as well: they are 0
            const int    blocks = 1 + i % 17;
            const auto   x      = random_blocks(rng, f, blocks, i % 4 != 0);
            auto         yq     = random_activations(rng, 32*blocks);
            if (i % 8 == 1) {
                // the largest sums
                for (size_t b = 0; b < yq.size(); b++) {
                    yq[b] = b % 34 < 2 ? yq[b] : rng() % 2 ? 127 : 0x81;
                }
            }
            judge_dot(t, f, x, decode(f, x), yq, scalar);
        }
    }
}

// --- golden vectors ------------------------------------------------------------------------------

static std::vector<uint8_t> read_bytes(const std::string & hex) {
    std::vector<uint8_t> bytes(hex == "-" ? 0 : hex.size()/2);
    for (size_t i = 0; i < bytes.size(); i++) {
        bytes[i] = std::stoi(hex.substr(2*i, 2), nullptr, 16);
    }
    return bytes;
}

static row read_floats(const std::string & hex) {
    const auto bytes = read_bytes(hex);
    row values(bytes.size()/sizeof(float));
    std::copy(bytes.begin(), bytes.end(), (uint8_t *) values.data());
    return values;
}

static void run_golden(tally & t) {
    generator rng(1);
    int id;
    for (std::string hex, bits, values, importance; std::cin >> id >> hex >> bits >> values >> importance;) {
        const format & f = *std::find_if(std::begin(FORMATS), std::end(FORMATS), [&](const format & each) { return each.id == id; });
        const auto x  = read_bytes(hex);
        const row  xf = read_floats(bits), in = read_floats(values), w = read_floats(importance);
        const std::string what = std::string(f.name) + " " + hex;
        std::vector<uint8_t> packed(x.size());
        ggml_quantize_chunk((ggml_type) id, in.data(), packed.data(), 0, 1, in.size(), w.empty() ? nullptr : w.data());
        t.count(packed == x, what + ": encoded otherwise");
        const row y = decode(f, x);
        t.count(y.size() == xf.size() && std::equal(y.begin(), y.end(), xf.begin(), same_bits), what + ": decoded otherwise");
        t.count(scalar_of(f) != nullptr, what + ": no scalar dot product beside");
        for (int i = 0; i < 16; i++) {
            judge_dot(t, f, x, xf, random_activations(rng, xf.size()), scalar_of(f));
        }
    }
}

// --- speed ---------------------------------------------------------------------------------------

static double thread_ns() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e9*now.tv_sec + now.tv_nsec;
}

// types take turns, as the machine's pace changes
static void run_speed(int ms) {
    const int n = 4096, rows = 64;
    const auto * q8 = ggml_get_type_traits_cpu(GGML_TYPE_Q8_0);
    generator rng(1);
    row y(n), w(n*rows);
    for (float & v : y) { v = normal(rng); }
    for (float & v : w) { v = normal(rng)*0.05f; }
    std::vector<uint8_t> yq(ggml_row_size(GGML_TYPE_Q8_0, n));
    q8->from_float(y.data(), yq.data(), n);

    struct entry { std::string name; int id; ggml_vec_dot_t dot; };
    std::vector<entry> all;
    for (int id : { 2, 20, 39, 40, 8, 100, 101, 102, 103, 104, 107 }) {
        all.push_back({ ggml_type_name((ggml_type) id), id, ggml_get_type_traits_cpu((ggml_type) id)->vec_dot });
    }
    for (const format & f : FORMATS) {
        if (scalar_of(f)) {
            all.push_back({ std::string(f.name) + " scalar", f.id, scalar_of(f) });
        }
    }
    std::vector<std::vector<uint8_t>> xq;
    for (const entry & each : all) {
        xq.emplace_back(ggml_row_size((ggml_type) each.id, n)*rows);
        ggml_quantize_chunk((ggml_type) each.id, w.data(), xq.back().data(), 0, rows, n, nullptr);
    }
    std::vector<std::vector<double>> times(all.size());
    const double end = thread_ns() + 1e6*ms*all.size();
    float sum = 0;
    while (thread_ns() < end) {
        for (size_t k = 0; k < all.size(); k++) {
            const double start = thread_ns();
            for (int r = 0; r < rows; r++) {
                float s = 0;
                all[k].dot(n, &s, 0, xq[k].data() + r*xq[k].size()/rows, 0, yq.data(), 0, 1);
                sum += s;
            }
            times[k].push_back((thread_ns() - start)/(n*rows)*1000);
        }
    }
    printf("{");
    for (size_t k = 0; k < all.size(); k++) {
        std::sort(times[k].begin(), times[k].end());
        printf("%s\"%s\": %.3f", k ? ", " : "", all[k].name.c_str(), times[k][times[k].size()/2]);
    }
    printf("}\n");
    fprintf(stderr, "%g\n", sum);
}

// --- load ----------------------------------------------------------------------------------------

// Whether all tensors are there and valid; what is not goes to stderr. As llama.cpp's loader: metadata
// first, then bounds, then data (gguf_init_from_file with data aborts when a file claims terabytes).
static bool read_gguf(const char * path) {
    ggml_context * meta = nullptr;
    gguf_context * file = gguf_init_from_file(path, { /*.no_alloc =*/ true, /*.ctx =*/ &meta });
    if (!file) {
        return false;
    }
    std::ifstream in(path, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
    bool valid = true;
    for (int64_t i = 0; i < gguf_get_n_tensors(file); i++) {
        const ggml_tensor * each = ggml_get_tensor(meta, gguf_get_tensor_name(file, i));
        const size_t offset = gguf_get_data_offset(file) + gguf_get_tensor_offset(file, i);
        const size_t size   = ggml_nbytes(each);
        if (offset + size < offset || offset + size > bytes.size()) {
            fprintf(stderr, "tensor '%s' at offset %zu is not within the file\n", each->name, offset);
            valid = false;
            continue;
        }
        // a copy: reads behind the end of a tensor are seen
        const std::vector<char> data(bytes.begin() + offset, bytes.begin() + offset + size);
        if (!ggml_validate_row_data(each->type, data.data(), size)) {
            fprintf(stderr, "tensor '%s' has invalid data\n", each->name);
            valid = false;
        }
        const auto to_float = ggml_get_type_traits(each->type)->to_float;
        row y(size ? each->ne[0] : 0);
        for (int64_t r = 0; to_float && size && r < ggml_nrows(each); r++) {
            to_float(data.data() + r*each->nb[1], y.data(), each->ne[0]);
        }
    }
    gguf_free(file);
    ggml_free(meta);
    return valid;
}

static void run_fuzz(tally & t, int n, int seed, const std::string & path) {
    generator rng(seed);
    std::ifstream in(path, std::ios::binary);
    const std::vector<char> original((std::istreambuf_iterator<char>(in)), {});
    const std::string mutant = path + ".mutant";
    long read = 0;
    for (int i = 0; i < n; i++) {
        auto bytes = original;
        for (int k = 1 + rng() % 4; k > 0; k--) {
            const uint32_t odd[] = { 0, 1, 31, 33, 43, 99, 100, 105, 106, 107, 108, 0x7F, 0x80, 0xFF, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000 };
            // most of it in front, where the sizes are
            const size_t at = rng() % 4 ? rng() % (bytes.size()/2) : rng() % bytes.size();
            switch (rng() % 4) {
                case 0: bytes[at] = rng(); break;
                case 1: bytes[at] ^= 1 << rng() % 8; break;
                case 2: { const uint32_t v = odd[rng() % 17]; std::memcpy(&bytes[at/4*4], &v, bytes.size() - at/4*4 < 4 ? 1 : 4); } break;
                case 3: bytes.resize(64 + rng() % (bytes.size() - 63)); break;
            }
        }
        std::ofstream(mutant, std::ios::binary).write(bytes.data(), bytes.size());
        read += read_gguf(mutant.c_str());
        t.count(true, "");
    }
    remove(mutant.c_str());
    t.count(read > 0 && read < n, std::to_string(read) + " of " + std::to_string(n) + " mutants were read");
}

int main(int argc, char ** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    const auto number = [&](int i) { return argc > i ? atoi(argv[i]) : 0; };
    tally t;
    ggml_cpu_init();
    if (GGML_TYPE_COUNT <= 107 || !ggml_type_name((ggml_type) 100) || !ggml_type_name((ggml_type) 107)) {
        t.count(false, "the types are not there");
    } else if (mode == "encode") {
        run_encode(t, number(2), number(3));
    } else if (mode == "decode") {
        run_decode(t);
    } else if (mode == "validate") {
        run_validate(t);
    } else if (mode == "dot") {
        run_dot(t, number(2), number(3), false);
    } else if (mode == "simd") {
        run_dot(t, number(2), number(3), true);
    } else if (mode == "golden") {
        run_golden(t);
    } else if (mode == "speed") {
        run_speed(number(2));
        return 0;
    } else if (mode == "load" && argc > 2) {
        puts(read_gguf(argv[2]) ? "read" : "refused");
        return 0;
    } else if (mode == "fuzz" && argc > 4) {
        run_fuzz(t, number(2), number(3), argv[4]);
    } else {
        return 2;
    }
    return t.report();
}
