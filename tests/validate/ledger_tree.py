"""A small tree in the form of llama.cpp, with all that ledgers are read from, and edits of it.

The texts are cut from b11549: the same macros, lambdas and comments, a few entries each.
"""

from __future__ import annotations

from tiny_project import Change

GGML_H = "ggml/include/ggml.h"
GGML_C = "ggml/src/ggml.c"
LLAMA_H = "include/llama.h"
RPC_H = "ggml/include/ggml-rpc.h"
PYTHON = "gguf-py/gguf/constants.py"
CPU = "ggml/src/ggml-cpu/ggml-cpu.cpp"
HOST = "ggml/src/ggml-vulkan/ggml-vulkan.cpp"
STRUCTS = "ggml/src/ggml-vulkan/ggml-vulkan-push-constants.h"
SHADERS = "ggml/src/ggml-vulkan/vulkan-shaders/"
GENERATOR = SHADERS + "vulkan-shaders-gen.cpp"
MUL_MM = SHADERS + "mul_mm.comp"
QUANTIZE = SHADERS + "quantize_q8_1.comp"

FILES: dict[str, str | None] = {
    GGML_H: """\
    enum ggml_type {
        GGML_TYPE_F32     = 0,
        GGML_TYPE_F16     = 1,
        GGML_TYPE_Q4_0    = 2,
        // GGML_TYPE_Q4_2 = 3, support has been removed
        GGML_TYPE_Q8_0    = 4,
        GGML_TYPE_COUNT   = 5,
    };
    enum ggml_op { GGML_OP_NONE = 0, GGML_OP_DUP, GGML_OP_MUL_MAT, GGML_OP_COUNT, };
    enum ggml_unary_op { GGML_UNARY_OP_ABS, GGML_UNARY_OP_SGN, GGML_UNARY_OP_COUNT, };
    enum ggml_glu_op { GGML_GLU_OP_REGLU, GGML_GLU_OP_COUNT, };
    GGML_API int use(enum ggml_type type);
""",
    GGML_C: """\
static const char * GGML_OP_NAME[GGML_OP_COUNT] = { "NONE", "DUP", "MUL_MAT", };
static_assert(GGML_OP_COUNT == 3, "GGML_OP_COUNT != 3");
static_assert(GGML_UNARY_OP_COUNT == 2, "GGML_UNARY_OP_COUNT != 2");
""",
    LLAMA_H: """\
    enum llama_ftype {
        LLAMA_FTYPE_ALL_F32     = 0,
        LLAMA_FTYPE_MOSTLY_F16  = 1, // except 1d tensors
        LLAMA_FTYPE_GUESSED = 1024, // not specified in the model file
    };
""",
    RPC_H: """\
#define RPC_PROTO_MAJOR_VERSION    8
#define RPC_PROTO_MINOR_VERSION    0
#define RPC_PROTO_PATCH_VERSION    0
static_assert(GGML_OP_COUNT == 3, "GGML_OP_COUNT has changed - update RPC_PROTO_PATCH_VERSION");
""",
    PYTHON: """\
class GGMLQuantizationType(IntEnum):
    F32     = 0
    F16     = 1
    Q4_0    = 2
    Q8_0    = 4


class LlamaFileType(IntEnum):
    ALL_F32     = 0
    # MOSTLY_Q4_1 = 3  # removed
    MOSTLY_F16  = 1  # except 1d tensors
    GUESSED     = 1024
""",
    CPU: """\
static bool ggml_backend_cpu_device_supports_op(ggml_backend_dev_t dev, const ggml_tensor * op) {
    switch (op->op) {
        case GGML_OP_MUL_MAT:
            return src1->type == GGML_TYPE_F32; // only this
        default:
            return true;
    }
}
""",
    STRUCTS: """\
struct vk_mat_mat_push_constants {
    uint32_t M; uint32_t N;
    uint32_t padded_N;
};
struct vk_rope_push_constants {
    uint32_t n;
    float base { 1.0f };
    int32_t sections[4];
    uint32_t rows() const { return n; }
};
template <> uint32_t use(const vk_mat_mat_push_constants & p) { return p.M; }
""",
    HOST: """\
#define TILE(n) n
void ggml_vk_load_shaders(vk_device& device) {
    auto const &ggml_vk_mul_mm_spec = [&device](std::vector<uint32_t> spec, bool aligned) {
        spec.push_back(aligned ? 1u : 0u);  // constantID=1: ALIGNED
        if (device->coopmat_support) {
            spec.push_back(0u);  // constantID=2: PAD = 0
            spec.push_back(1u);  // constantID=3: RESHAPE = true
        }
        return spec;
    };
    auto const &ggml_vk_mul_mm_spec_quant = [&device](std::vector<uint32_t> spec, bool aligned) {
        spec.push_back(aligned ? 1u : 0u);  // constantID=1: ALIGNED
        spec.push_back(type);               // constantID=2: MmTypeA
        if (device->coopmat_support) {
            spec.push_back(0u);  // constantID=3: PAD = 0
            spec.push_back(1u);  // constantID=4: RESHAPE = true
        }
        return spec;
    };
#define CREATE_MM(NAMELC, PUSHCONST) \\
    ggml_vk_create_pipeline(device, device->pipeline_ ## NAMELC, #NAMELC, NAMELC ## _len, \\
        NAMELC ## _data, "main", 3, sizeof(PUSHCONST), {TILE(1), 1, 1}, spec, 1);
    CREATE_MM(matmul_f16, vk_mat_mat_push_constants)
    CREATE_MM(matmul_quant_f16, vk_mat_mat_push_constants)
    CREATE_MM(matmul_id_f16, vk_mat_mat_push_constants)
#undef CREATE_MM
    ggml_vk_create_pipeline(device, device->pipeline_quantize_q8_1, "quantize_q8_1",
        quantize_q8_1_len, quantize_q8_1_data, "main", 2, 1 * sizeof(uint32_t), {32, 1, 1},
        { device->subgroup_size }, 1);
    ggml_vk_create_pipeline(device, device->pipeline_rope, "rope_norm_f32", rope_norm_f32_len,
        rope_norm_f32_data, "main", 2, sizeof(vk_rope_push_constants), {1, 512, 1}, {}, 1);
}
static bool ggml_backend_vk_device_supports_op(ggml_backend_dev_t dev, const ggml_tensor * op) {
    switch (op->op) {
        case GGML_OP_DUP:
        case GGML_OP_MUL_MAT:
            switch (op->type) {
                case GGML_TYPE_F16:
                case GGML_TYPE_Q4_0:
                    return true;
                default:
                    return false;
            }
        case GGML_OP_NONE:
            return true;
        default:
            return false;
    }
}
""",
    GENERATOR: """\
const std::vector<std::string> type_names = { "f32", "f16", };
void string_to_spv(std::string name, const std::string& source, const map& defines, bool fp16) {}
void matmul_shaders(bool id, bool coopmat) {
    std::map<std::string, std::string> base_dict;
    std::string shader_name = "matmul";
    if (id) {
        base_dict["MUL_MAT_ID"] = "1";
        shader_name = "matmul_id";
    }
    if (coopmat) {
        base_dict["COOPMAT"] = "1";
    }
    string_to_spv(shader_name + "_f16", "mul_mm.comp", merge_maps(base_dict, {{"A", "1"}}));
    string_to_spv(shader_name + "_quant_f16", "mul_mm.comp", merge_maps(base_dict,
        {{"MULMAT_QUANT", "1"}}));
}
void process_shaders() {
    for (const auto& tname : type_names) {
        string_to_spv("rope_norm_" + tname, "rope_norm.comp", {{"A_TYPE", tname}});
    }
    string_to_spv("quantize_q8_1", "quantize_q8_1.comp", {});
}
""",
    MUL_MM: """\
#version 450
#ifdef MULMAT_QUANT
layout (constant_id = 2) const uint MmTypeA = 0;
#endif
layout (push_constant) uniform parameter
{
    uint M;
#ifdef MUL_MAT_ID
    uint nei0; uint nei1;
#else
    uint N;
#endif
} p;
layout (constant_id = 0) const uint BLOCK_SIZE = 64;
layout (constant_id = 1) const uint ALIGNED = 0;
// layout (constant_id = 3) const uint BK = 32;
#ifdef COOPMAT
#ifdef MULMAT_QUANT
layout(constant_id = 3) const uint PAD = 4;
layout(constant_id = 4) const bool RESHAPE = false;
#else
layout(constant_id = 2) const uint PAD = 4;
layout(constant_id = 3) const bool RESHAPE = false;
#endif
#else
const uint PAD = 1;
#endif
""",
    QUANTIZE: """\
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout (constant_id = 0) const uint GROUP_SIZE = 32;
layout (push_constant) uniform parameter { uint ne; } p;
""",
    SHADERS + "rope_norm.comp": """\
#include "rope_params.glsl"
layout (push_constant) uniform parameter {
    rope_params pc;
};
""",
    SHADERS + "rope_params.glsl": """\
#if !defined(ROPE_PARAMS)
#define ROPE_PARAMS
struct rope_params {
    uint n;
    float base;
    int sections[4];
};
#endif
""",
}


def edit(name: str, *edits: tuple[str, str, str]) -> Change:
    """A step that replaces texts: (path, old, new); each old text has to be there once."""
    files: dict[str, str | None] = {}
    for path, old, new in edits:
        text = files.get(path, FILES[path])
        assert text is not None
        assert text.count(old) == 1, f"{old!r} is in {path} {text.count(old)} times"
        files[path] = text.replace(old, new)
    return Change(name, files)
