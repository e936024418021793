// Makes a Vulkan device report that its packed integer dot product is accelerated.
//
//   gcc -shared -fPIC integer_dot.c -o integer_dot.so; LD_PRELOAD=integer_dot.so PROGRAM
//
// llama.cpp takes its q8_1 shaders only where integerDotProduct4x8BitPackedSignedAccelerated is
// true. lavapipe has the instructions (they are exact, so their result is that of any device) and
// says false. No other property is changed, and a device that does not know the structure says
// what it said.
//
// With LAB_PIPELINES=FILE and GGML_VK_DEBUG_MARKERS=1 (upstream names its pipelines then) one line
// "COUNT NAME" for each pipeline that was bound is appended to FILE at exit: which shaders ran.

#define _GNU_SOURCE

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <vulkan/vulkan.h>

#define MAX_PIPELINES 16384
#define MAX_NAME 96

typedef struct {
    uint64_t handle;
    unsigned long bound;
    char name[MAX_NAME];
} pipeline;

static PFN_vkGetInstanceProcAddr            next_address;
static PFN_vkGetPhysicalDeviceProperties2   next_properties;
static PFN_vkSetDebugUtilsObjectNameEXT     next_name;
static PFN_vkCmdBindPipeline                next_bind;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pipeline        known[MAX_PIPELINES];
static size_t          n_known;

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2 * properties) {
    next_properties(device, properties);
    for (VkBaseOutStructure * each = properties->pNext; each; each = each->pNext) {
        if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES) {
            ((VkPhysicalDeviceShaderIntegerDotProductProperties *) each)
                ->integerDotProduct4x8BitPackedSignedAccelerated = VK_TRUE;
        }
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL set_name(VkDevice device, const VkDebugUtilsObjectNameInfoEXT * info) {
    if (info->objectType == VK_OBJECT_TYPE_PIPELINE && info->pObjectName) {
        pthread_mutex_lock(&lock);
        if (n_known < MAX_PIPELINES) {
            known[n_known].handle = info->objectHandle;
            snprintf(known[n_known++].name, MAX_NAME, "%s", info->pObjectName);
        }
        pthread_mutex_unlock(&lock);
    }
    return next_name(device, info);
}

static VKAPI_ATTR void VKAPI_CALL bind(VkCommandBuffer buffer, VkPipelineBindPoint point, VkPipeline handle) {
    pthread_mutex_lock(&lock);
    for (size_t i = n_known; i-- > 0;) { // a driver may give a handle again: the last name counts
        if (known[i].handle == (uint64_t) handle) {
            known[i].bound++;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    next_bind(buffer, point, handle);
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
    if (strcmp(name, "vkGetPhysicalDeviceProperties2") == 0 || strcmp(name, "vkGetPhysicalDeviceProperties2KHR") == 0) {
        next_properties = (PFN_vkGetPhysicalDeviceProperties2) found;
        return (PFN_vkVoidFunction) get_properties;
    }
    if (strcmp(name, "vkSetDebugUtilsObjectNameEXT") == 0) {
        next_name = (PFN_vkSetDebugUtilsObjectNameEXT) found;
        return (PFN_vkVoidFunction) set_name;
    }
    if (strcmp(name, "vkCmdBindPipeline") == 0 && getenv("LAB_PIPELINES")) {
        next_bind = (PFN_vkCmdBindPipeline) found;
        return (PFN_vkVoidFunction) bind;
    }
    return found;
}

__attribute__((destructor)) static void tell(void) {
    const char * path = getenv("LAB_PIPELINES");
    FILE * file = path ? fopen(path, "a") : NULL;
    static char room[1 << 20]; // one write a process: several append to the file
    if (file) {
        setvbuf(file, room, _IOFBF, sizeof(room));
    }
    for (size_t i = 0; file && i < n_known; i++) {
        if (known[i].bound) {
            fprintf(file, "%lu %s\n", known[i].bound, known[i].name);
        }
    }
    if (file) {
        fclose(file);
    }
}
