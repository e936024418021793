// Makes the ggml-vulkan backend of a tree set up its pipelines on a device that computes nothing.
//
// Opening the backend walks all matrix pipelines. Those of flash attention are set up for the
// tensors that come: HEADS x KV types x batch sizes below.

#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-vulkan.h"

#include <cstdio>
#include <cstdlib>

static const int       HEADS[][2] = { { 64, 64 }, { 128, 128 }, { 256, 256 }, { 576, 512 } };
static const ggml_type TYPES[]    = { GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_BF16 };
static const int       BATCHES[]  = { 1, 8, 512 };
static const int       KV         = 1024;

static bool attend(ggml_backend_t backend, int hsk, int hsv, ggml_type type, int batch) {
    ggml_init_params params  = { 1 << 20, nullptr, true };
    ggml_context *   context = ggml_init(params);
    ggml_tensor * q = ggml_new_tensor_4d(context, GGML_TYPE_F32, hsk, batch, 32, 1);
    ggml_tensor * k = ggml_new_tensor_4d(context, type, hsk, KV, hsk == 576 ? 1 : 8, 1);
    ggml_tensor * v = ggml_new_tensor_4d(context, type, hsv, KV, hsk == 576 ? 1 : 8, 1);
    ggml_tensor * m = ggml_new_tensor_4d(context, GGML_TYPE_F16, KV, batch, 1, 1);
    ggml_tensor * out = ggml_flash_attn_ext(context, q, k, v, m, 0.125f, 0.0f, 0.0f);
    bool done = ggml_backend_supports_op(backend, out);
    if (done) {
        ggml_cgraph * graph = ggml_new_graph(context);
        ggml_build_forward_expand(graph, out);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, backend);
        done = buffer && ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS;
        ggml_backend_buffer_free(buffer);
    }
    ggml_free(context);
    return done;
}

int main(void) {
    ggml_backend_t backend = ggml_backend_vk_init(0);
    if (!backend) {
        fprintf(stderr, "record_pipelines: the backend finds no device\n");
        return 1;
    }
    char name[128];
    ggml_backend_vk_get_device_description(0, name, sizeof(name));
    fprintf(stderr, "device %s\n", name);
    for (const auto & head : HEADS) {
        for (ggml_type type : TYPES) {
            for (int batch : BATCHES) {
                if (!attend(backend, head[0], head[1], type, batch)) {
                    fprintf(stderr, "no attention of %d/%d %s batch %d\n", head[0], head[1], ggml_type_name(type), batch);
                }
            }
        }
    }
    fflush(nullptr);
    _Exit(0); // the driver's teardown has nothing to say
}
