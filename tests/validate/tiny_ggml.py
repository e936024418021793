"""A library with the names of ggml's, compiled for real: what a patch changes, its code shows."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from validate.object_code import TOOLS

needs_binutils = pytest.mark.skipif(
    platform.machine() != "x86_64" or not all(map(shutil.which, ("cc", *TOOLS))),
    reason="needs a compiler and binutils on x86-64",
)
SOURCE = """
#include <math.h>
#include <stddef.h>
#include <string.h>

#define TYPES 8
void ggml_abort(const char * file, int line, const char * text);
void ggml_abort(const char * file, int line, const char * text) { __builtin_trap(); }
#define ASSERT(x) if (!(x)) ggml_abort("ggml.c", __LINE__, "ASSERT(" #x ")")

struct traits { const char * name; long block; void (*to_float)(const void *, float *, long); };
struct traits_cpu { float (*vec_dot)(const char *, const char *, long); int dot_type; };

const signed char kvalues_iq4nl[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13 };

void dequantize_row_q4_0(const void * x, float * y, long k) {
    ASSERT(k % 32 == 0);
    for (long i = 0; i < k; i++) { y[i] = ((const char *) x)[i / 2] * 0.5f; }
}
void dequantize_row_iq4_nl(const void * x, float * y, long k) {
    for (long i = 0; i < k; i++) { y[i] = kvalues_iq4nl[((const unsigned char *) x)[i] & 15]; }
}
void dequantize_row_iq4_xs(const void * x, float * y, long k) {
    dequantize_row_iq4_nl(x, y, k / 2);
}
/*FUNCTIONS*/
float ggml_vec_dot_q4_0_q8_0(const char * x, const char * y, long k) {
    float sum = 0;
    for (long i = 0; i < k; i++) { sum += x[i] * y[i] * 0.25f; }
    return sum;
}
static __attribute__((noinline)) int nearest(float x) { return (int) lroundf(x * 15.0f); }
void quantize_row_iq4_nl_ref(const float * x, char * y, long k) {
    for (long i = 0; i < k; i++) { y[i] = (char) nearest(x[i]); }
}
void quantize_row_q8_0(const float * x, char * y, long k) {
    for (long i = 0; i < k; i++) { y[i] = (char) lroundf(x[i] * 127.0f); }
}

const struct traits type_traits[TYPES] = {
    { "f32", 1, 0 },
    { "q4_0", 32, dequantize_row_q4_0 },
    { "q8_0", 32, 0 },
    { "iq4_nl", 32, dequantize_row_iq4_nl },
    { "iq4_xs", 32, dequantize_row_iq4_xs },
    /*TRAITS*/
};
const struct traits_cpu type_traits_cpu[TYPES] = {
    { 0, 0 },
    { ggml_vec_dot_q4_0_q8_0, 2 },
    { 0, 0 },
    { 0, 2 },
    /*TRAITS_CPU*/
};

static __attribute__((noinline)) float load(const char * x, long i) { return x[i] + 1.5f; }

void ggml_compute_forward_add(char * x, float * y, long k) {
    ASSERT(k > 3);
    for (long i = 0; i < k; i++) { y[i] += load(x, i); }
}
void ggml_compute_forward_cpy(char * x, float * y, long k) {
    for (long i = 0; i < k; i++) { y[i] = load(x, i); }
}
void ggml_compute_forward_clamp(char * x, float * y, int op) {
    switch (op) {
        case 0: y[0] = sqrtf(y[1]); break;
        case 1: y[1] = cosf(y[2]); break;
        case 2: y[2] = sinf(y[3]); break;
        case 3: y[3] = expf(y[4]); break;
        case 4: y[4] = logf(y[5]); break;
        case 5: y[5] = tanhf(y[6]); break;
        default: memset(y, op, 64);
    }
}
void ggml_compute_forward_add1(char * x, float * y, long k) { y[k] = x[k] + 2.5f; }
const char * const GGML_OP_NAME[] = { "NONE", "ADD", "ADD1", "CPY", "UNARY" };

int ggml_new_tensor(int type, long k) {
    ASSERT(type < TYPES);
    return k > 8 ? type : 0;
}
float ggml_table_f32_f16[64];
float ggml_table_gelu[64];
void ggml_cpu_init(void) {
    static int done;
    if (done) { return; }
    for (int i = 0; i < 64; i++) {
        ggml_table_f32_f16[i] = expf(i);
        /*INIT*/
    }
    done = 1;
}
const char * gguf_message(int number);
const char * gguf_message(int number) { return number > 3 ? "bad file" : "no file"; }

void ggml_graph_compute(char * x, float * y, long k) {
    for (long i = 0; i < 8; i++) {
        if (type_traits[i].to_float) { type_traits[i].to_float(x, y, k); }
        if (type_traits_cpu[i].vec_dot) { y[i] = type_traits_cpu[i].vec_dot(x, x, k); }
    }
    if (k == 1) { ggml_compute_forward_add(x, y, k); }
    if (k == 2) { ggml_compute_forward_cpy(x, y, k); }
    if (k == 3) { ggml_compute_forward_clamp(x, y, (int) k); }
    if (k == 4) { ggml_compute_forward_add1(x, y, ggml_new_tensor((int) k, k)); }
    ggml_cpu_init();
    y[0] = ggml_table_f32_f16[k] + ggml_table_gelu[k];
}
"""
MORE_TABLES = ("float ggml_table_gelu[64];", "float ggml_table_gelu[64]; float ggml_table_new[64];")
FILL = ("/*INIT*/", "ggml_table_new[i] = i * 0.5f;")
# A new type: functions, one entry in both tables, more types than before.
NEW_TYPE = (
    ("define TYPES 8", "define TYPES 10"),
    (
        "/*FUNCTIONS*/",
        "void dequantize_row_q6_0_new(const void * x, float * y, long k) "
        "{ for (long i = 0; i < k; i++) { y[i] = ((const char *) x)[i] * 0.125f; } }",
    ),
    ("/*TRAITS*/", '[6] = { "q6_0_new", 16, dequantize_row_q6_0_new },'),
    ("/*TRAITS_CPU*/", "[6] = { 0, 2 },"),
)


def compile_library(path: Path, *edits: tuple[str, str]) -> Path:
    """The library with parts of its source replaced; each edit has to change something."""
    text = SOURCE
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text(text)
    command = ["cc", "-O2", "-fPIC", "-shared", "-w", "-o", path, source, "-lm"]
    subprocess.run(command, check=True)
    return path
