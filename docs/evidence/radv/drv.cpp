#include "ggml.h"
#include "ggml-backend.h"
#include "ggml-alloc.h"
#include "ggml-vulkan.h"
#include <cstdio>
#include <cstdlib>
int main(int argc, char ** argv) {
    ggml_type type = (ggml_type) atoi(argv[1]);
    ggml_backend_t be = ggml_backend_vk_init(0);
    if (!be) { fprintf(stderr, "no backend\n"); return 1; }
    char d[128]; ggml_backend_vk_get_device_description(0, d, sizeof d); fprintf(stderr, "DEV %s\n", d);
    ggml_init_params ip = { 1<<20, NULL, true };
    ggml_context * c = ggml_init(ip);
    ggml_tensor * a = ggml_new_tensor_2d(c, type, 1024, 512);
    ggml_tensor * b = ggml_new_tensor_2d(c, GGML_TYPE_F32, 1024, 512);
    ggml_tensor * m = ggml_mul_mat(c, a, b);
    ggml_cgraph * g = ggml_new_graph(c); ggml_build_forward_expand(g, m);
    ggml_backend_alloc_ctx_tensors(c, be);
    ggml_status s = ggml_backend_graph_compute(be, g);
    fprintf(stderr, "STATUS %d\n", (int) s); fflush(NULL);
    _Exit(0);
}
