// Writes down every vkCmdDispatch of a program: the pipeline's name, its groups and its first constants.
//
//   gcc -shared -fPIC vulkan_dispatches.c -o dispatches.so -ldl
//   GGML_VK_DEBUG_MARKERS=1 LAB_DISPATCHES=FILE LD_PRELOAD=dispatches.so PROGRAM
//
// A line each, in the order in which they were recorded, written at exit:
//   matmul_id_subgroup_quant_f32_f16acc_aligned_2 4 3 8 : 128 128 128 32
// Upstream names its pipelines only with GGML_VK_DEBUG_MARKERS; the constants are the 32-bit words
// of the specialization (of a matmul: size of the workgroup, rows and columns of a tile, ...).
// Nothing is changed on the way to the driver.

#define _GNU_SOURCE

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

#define MAX_PIPELINES 16384
#define MAX_DISPATCHES 65536
#define MAX_NAME 112
#define CONSTANTS 4

typedef struct {
    uint64_t handle;
    char name[MAX_NAME];
    uint32_t constants[CONSTANTS];
} pipeline;

typedef struct {
    size_t pipeline; // in `known`; 0 is one without a name
    uint32_t groups[3];
} dispatch;

static PFN_vkGetInstanceProcAddr        next_address;
static PFN_vkCreateComputePipelines     next_create;
static PFN_vkSetDebugUtilsObjectNameEXT next_name;
static PFN_vkCmdBindPipeline            next_bind;
static PFN_vkCmdDispatch                next_dispatch;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pipeline        known[MAX_PIPELINES];
static size_t          n_known = 1;
static dispatch        seen[MAX_DISPATCHES];
static size_t          n_seen;

static __thread size_t bound; // upstream records a command buffer on one thread

static size_t find(uint64_t handle) {
    for (size_t i = n_known; i-- > 1;) { // a driver may give a handle again: the last one counts
        if (known[i].handle == handle) {
            return i;
        }
    }
    return 0;
}

static void keep(uint64_t handle, const VkSpecializationInfo * special) {
    if (n_known == MAX_PIPELINES) {
        return;
    }
    pipeline * mine = &known[n_known++];
    mine->handle = handle;
    for (uint32_t i = 0; special && i < special->mapEntryCount; i++) {
        const VkSpecializationMapEntry * entry = &special->pMapEntries[i];
        if (entry->constantID < CONSTANTS && entry->size == sizeof(uint32_t)) {
            memcpy(&mine->constants[entry->constantID], (const char *) special->pData + entry->offset, sizeof(uint32_t));
        }
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL create(VkDevice device, VkPipelineCache cache, uint32_t count,
        const VkComputePipelineCreateInfo * infos, const VkAllocationCallbacks * allocator, VkPipeline * made) {
    const VkResult result = next_create(device, cache, count, infos, allocator, made);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; result == VK_SUCCESS && i < count; i++) {
        keep((uint64_t) made[i], infos[i].stage.pSpecializationInfo);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL set_name(VkDevice device, const VkDebugUtilsObjectNameInfoEXT * info) {
    if (info->objectType == VK_OBJECT_TYPE_PIPELINE && info->pObjectName) {
        pthread_mutex_lock(&lock);
        const size_t at = find(info->objectHandle);
        if (at) {
            snprintf(known[at].name, MAX_NAME, "%s", info->pObjectName);
        }
        pthread_mutex_unlock(&lock);
    }
    return next_name(device, info);
}

static VKAPI_ATTR void VKAPI_CALL bind(VkCommandBuffer buffer, VkPipelineBindPoint point, VkPipeline handle) {
    pthread_mutex_lock(&lock);
    bound = find((uint64_t) handle);
    pthread_mutex_unlock(&lock);
    next_bind(buffer, point, handle);
}

static VKAPI_ATTR void VKAPI_CALL dispatch_groups(VkCommandBuffer buffer, uint32_t x, uint32_t y, uint32_t z) {
    pthread_mutex_lock(&lock);
    if (n_seen < MAX_DISPATCHES) {
        seen[n_seen++] = (dispatch) { bound, { x, y, z } };
    }
    pthread_mutex_unlock(&lock);
    next_dispatch(buffer, x, y, z);
}

#define TAKE(wanted, mine, next, type)                \
    if (strcmp(name, wanted) == 0) {                  \
        next = (type) found;                          \
        return (PFN_vkVoidFunction) mine;             \
    }

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char * name) {
    if (!next_address) {
        next_address = (PFN_vkGetInstanceProcAddr) dlsym(RTLD_NEXT, "vkGetInstanceProcAddr");
    }
    const PFN_vkVoidFunction found = next_address ? next_address(instance, name) : NULL;
    if (!found) {
        return NULL;
    }
    if (strcmp(name, "vkGetInstanceProcAddr") == 0) {
        return (PFN_vkVoidFunction) vkGetInstanceProcAddr;
    }
    TAKE("vkCreateComputePipelines", create, next_create, PFN_vkCreateComputePipelines)
    TAKE("vkSetDebugUtilsObjectNameEXT", set_name, next_name, PFN_vkSetDebugUtilsObjectNameEXT)
    TAKE("vkCmdBindPipeline", bind, next_bind, PFN_vkCmdBindPipeline)
    TAKE("vkCmdDispatch", dispatch_groups, next_dispatch, PFN_vkCmdDispatch)
    return found;
}

__attribute__((destructor)) static void tell(void) {
    const char * path = getenv("LAB_DISPATCHES");
    FILE * file = path && n_seen ? fopen(path, "w") : NULL;
    for (size_t i = 0; file && i < n_seen; i++) {
        const pipeline * mine = &known[seen[i].pipeline];
        const uint32_t * groups = seen[i].groups;
        fprintf(file, "%s %u %u %u :", mine->name[0] ? mine->name : "?", groups[0], groups[1], groups[2]);
        for (size_t c = 0; c < CONSTANTS; c++) {
            fprintf(file, " %u", mine->constants[c]);
        }
        fprintf(file, "\n");
    }
    if (file) {
        fclose(file);
    }
}
