// The CPU backend's table of dot products, without the rest of the backend: what is needed to judge
// them for another architecture, under an emulator.
#include "ggml-cpu.h"
#include "ggml-impl.h"
#include "quants.h"

#include <cstring>

extern "C" {

float ggml_table_f32_f16[1 << 16];
float ggml_table_f32_e8m0_half[256];
float ggml_table_f32_ue4m3[256];
float ggml_table_f32_rocmfpx[256];

void ggml_cpu_init(void) {
    for (int i = 0; i < 1 << 16; i++) {
        ggml_table_f32_f16[i] = ggml_fp16_to_fp32((ggml_fp16_t) i);
    }
    for (int i = 0; i < 256; i++) {
        ggml_table_f32_rocmfpx[i] = i <= 0x7e ? ggml_ue4m3_to_fp32(i) : 0.0f;
    }
}

const ggml_type_traits_cpu * ggml_get_type_traits_cpu(ggml_type type) {
    static ggml_type_traits_cpu traits[GGML_TYPE_COUNT];
    const auto set = [](int id, ggml_from_float_t from_float, ggml_vec_dot_t vec_dot) {
        traits[id].from_float   = from_float;
        traits[id].vec_dot      = vec_dot;
        traits[id].vec_dot_type = GGML_TYPE_Q8_0;
        traits[id].nrows        = 1;
    };
    set(GGML_TYPE_Q8_0,              quantize_row_q8_0,              nullptr);
    set(GGML_TYPE_Q4_0_ROCMFP4,      quantize_row_q4_0_rocmfp4,      ggml_vec_dot_q4_0_rocmfp4_q8_0);
    set(GGML_TYPE_Q4_0_ROCMFP4_FAST, quantize_row_q4_0_rocmfp4_fast, ggml_vec_dot_q4_0_rocmfp4_fast_q8_0);
    set(GGML_TYPE_Q6_0_ROCMFPX,      quantize_row_q6_0_rocmfpx,      ggml_vec_dot_q6_0_rocmfpx_q8_0);
    set(GGML_TYPE_Q8_0_ROCMFPX,      quantize_row_q8_0_rocmfpx,      ggml_vec_dot_q8_0_rocmfpx_q8_0);
    set(GGML_TYPE_Q3_0_ROCMFPX,      quantize_row_q3_0_rocmfpx,      ggml_vec_dot_q3_0_rocmfpx_q8_0);
    set(GGML_TYPE_Q2_0_ROCMFPX,      quantize_row_q2_0_rocmfpx,      ggml_vec_dot_q2_0_rocmfpx_q8_0);
    return &traits[type];
}

// the driver looks for the scalar functions by name
void * find_function(const char * name) {
#define FIND(type) if (strcmp(name, "ggml_vec_dot_" #type "_q8_0_generic") == 0) { return (void *) ggml_vec_dot_##type##_q8_0_generic; }
    FIND(q4_0_rocmfp4)
    FIND(q4_0_rocmfp4_fast)
    FIND(q6_0_rocmfpx)
    FIND(q8_0_rocmfpx)
    FIND(q3_0_rocmfpx)
    FIND(q2_0_rocmfpx)
    return nullptr;
}

}
