// Compile compute shaders with a Vulkan driver and print what its compiler says about them.
//
//   pipeline_stats --spirv FILE [--entry NAME] [--spec ID=VALUE,...] [--subgroup SIZE] [--full 0|1]
//                  [--push BYTES] [--bindings COUNT] [--robust 0|1] [--isa 0|1]
//   pipeline_stats --batch     the same options on standard input, one pipeline a line, split by tabs
//   pipeline_stats --device    names the device and compiles nothing
//
// Makes a pipeline (nothing runs, so RADV's null device and the amdgpu drm-shim do) and prints one
// JSON object with the statistics of VK_KHR_pipeline_executable_properties; with --isa 1 also how
// often each LDS instruction (ds_*) is in the code. The text of the code takes a third of the time:
// it is asked for only where there may be one. The first physical device is used: VK_DRIVER_FILES
// chooses the driver. All descriptors are storage buffers of set 0. Every supported feature is on;
// robustBufferAccess is off unless --robust 1 asks for it, as llama.cpp does for some shaders.
//
// --batch answers each line with one line, in order. Each pipeline is compiled in a process of its
// own, so that a compiler that crashes costs one answer: {"error": ...}.

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vulkan/vulkan.h>

#define MAX_SPEC 64
#define MAX_BINDINGS 32
#define MAX_WORDS 32
#define MAX_MNEMONICS 64
#define UNSET UINT32_MAX

typedef struct {
    const char * spirv;
    const char * entry;
    uint32_t     subgroup;
    uint32_t     push;
    uint32_t     bindings;
    uint32_t     full;
    uint32_t     robust;
    uint32_t     isa;
    uint32_t                 n_spec;
    uint32_t                 spec_values[MAX_SPEC];
    VkSpecializationMapEntry spec_entries[MAX_SPEC];
} options;

static void die(const char * format, ...) {
    va_list args;
    va_start(args, format);
    fputs("pipeline_stats: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static void check(VkResult result, const char * what) {
    if (result != VK_SUCCESS) {
        die("%s failed with VkResult %d", what, (int) result);
    }
}

// a number that ends at one of the characters in stops, or at the end of the text
static uint32_t parse_u32(const char * text, const char * stops, const char ** end) {
    char * stop = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &stop, 0);
    if (text[0] < '0' || text[0] > '9' || errno || value > UINT32_MAX || (*stop && !strchr(stops, *stop))) {
        die("not a number: '%s'", text);
    }
    if (end) {
        *end = stop;
    }
    return (uint32_t) value;
}

static void parse_spec(options * opts, const char * text) {
    while (*text) {
        const uint32_t i  = opts->n_spec++;
        const uint32_t id = parse_u32(text, "=", &text);
        if (*text != '=' || i == MAX_SPEC) {
            die("--spec wants ID=VALUE,... with up to %d constants", MAX_SPEC);
        }
        opts->spec_values[i]  = parse_u32(text + 1, ",", &text);
        opts->spec_entries[i] = (VkSpecializationMapEntry) {
            .constantID = id, .offset = i * (uint32_t) sizeof(uint32_t), .size = sizeof(uint32_t) };
        text += *text == ',';
    }
}

static options parse_options(int argc, char ** argv) {
    options opts = { .entry = "main", .full = UNSET };
    for (int i = 1; i < argc; i += 2) {
        const char * name  = argv[i];
        const char * value = argv[i + 1]; // NULL after the last word
        uint32_t * number = strcmp(name, "--subgroup") == 0 ? &opts.subgroup
                          : strcmp(name, "--push")     == 0 ? &opts.push
                          : strcmp(name, "--bindings") == 0 ? &opts.bindings
                          : strcmp(name, "--full")     == 0 ? &opts.full
                          : strcmp(name, "--robust")   == 0 ? &opts.robust
                          : strcmp(name, "--isa")      == 0 ? &opts.isa : NULL;
        if (!value) {
            die("no value for %s", name);
        } else if (strcmp(name, "--spirv") == 0) {
            opts.spirv = value;
        } else if (strcmp(name, "--entry") == 0) {
            opts.entry = value;
        } else if (strcmp(name, "--spec") == 0) {
            parse_spec(&opts, value);
        } else if (number) {
            *number = parse_u32(value, "", NULL);
        } else {
            die("unknown option %s", name);
        }
    }
    if (!opts.spirv || opts.bindings > MAX_BINDINGS) {
        die("--spirv FILE is missing, or --bindings is above %d", MAX_BINDINGS);
    }
    if (opts.full == UNSET) {
        opts.full = opts.subgroup > 0;
    }
    return opts;
}

// drivers may crash on an entry point that is not there
static bool has_entry(const uint32_t * words, size_t n_words, const char * entry) {
    for (size_t i = 5; i < n_words && words[i] >> 16; i += words[i] >> 16) {
        const size_t room = (n_words - i) * sizeof(uint32_t);
        if ((words[i] & 0xffff) == 15 && room > 12 && strncmp((const char *) &words[i + 3], entry, room - 12) == 0) {
            return true; // OpEntryPoint
        }
    }
    return false;
}

static uint32_t * read_spirv(const char * path, size_t * size) {
    FILE * file = fopen(path, "rb");
    long   length = 0;
    if (!file || fseek(file, 0, SEEK_END) || (length = ftell(file)) < 0 || fseek(file, 0, SEEK_SET)) {
        die("can't read %s: %s", path, strerror(errno));
    }
    uint32_t * words = malloc((size_t) length + 1);
    if (!words || length < 20 || length % 4 || fread(words, 1, (size_t) length, file) != (size_t) length || words[0] != 0x07230203) {
        die("%s is not a SPIR-V module of this machine's byte order", path);
    }
    fclose(file);
    *size = (size_t) length;
    return words;
}

// capabilities with which nothing moves between lanes that RADV would use an LDS instruction for
static bool is_plain(uint32_t capability) {
    static const uint32_t plain[] = {
        1, 9, 10, 11, 22, 39,   // Shader, Float16, Float64, Int64, Int16, Int8
        61, 62, 63, 64,         // GroupNonUniform, ~Vote, ~Arithmetic, ~Ballot; 65 on are shuffles
        4433, 4434, 4448, 4449, // StorageBuffer16BitAccess, Uniform~, StorageBuffer8BitAccess, Uniform~
        6016, 6017, 6018, 6019, // DotProductInputAll, ~4x8Bit, ~4x8BitPacked, DotProduct
    };
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (plain[i] == capability) {
            return true;
        }
    }
    return false;
}

// whether the code may have LDS instructions: a variable is in workgroup memory, or lanes may exchange
// values in another way (a shuffle becomes ds_bpermute)
static bool may_use_lds(const uint32_t * words, size_t n_words) {
    for (size_t i = 5; i < n_words && words[i] >> 16; i += words[i] >> 16) {
        const uint32_t code = words[i] & 0xffff;
        const size_t   room = n_words - i;
        if ((code == 17 && room > 1 && !is_plain(words[i + 1])) || // OpCapability
            (code == 59 && room > 3 && words[i + 3] == 4)) {       // OpVariable, Workgroup
            return true;
        }
    }
    return false;
}

static VkPhysicalDevice first_device(void) {
    const VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3 };
    const VkInstanceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app };
    VkInstance       instance = VK_NULL_HANDLE;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    uint32_t         count    = 1;
    check(vkCreateInstance(&info, NULL, &instance), "vkCreateInstance");
    if (vkEnumeratePhysicalDevices(instance, &count, &physical) < 0 || count == 0) {
        die("the driver shows no device");
    }
    return physical;
}

static bool has_extension(VkPhysicalDevice physical, const char * name) {
    VkExtensionProperties list[512];
    uint32_t count = sizeof(list) / sizeof(list[0]);
    check(vkEnumerateDeviceExtensionProperties(physical, NULL, &count, list), "vkEnumerateDeviceExtensionProperties");
    while (count > 0 && strcmp(list[count - 1].extensionName, name) != 0) {
        count--;
    }
    return count > 0;
}

// a device with every feature on that a shader of ours may ask for
static VkDevice make_device(VkPhysicalDevice physical) {
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR coopmat = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR };
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR stats = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR };
    VkPhysicalDeviceVulkan13Features v13 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, .pNext = &stats };
    VkPhysicalDeviceVulkan12Features v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &v13 };
    VkPhysicalDeviceVulkan11Features v11 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &v12 };
    VkPhysicalDeviceFeatures2 features = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v11 };

    VkPhysicalDevicePipelineRobustnessFeaturesEXT robustness = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_ROBUSTNESS_FEATURES_EXT };

    const char * extensions[3] = { VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME };
    uint32_t     n_extensions  = 1;
    if (has_extension(physical, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME)) {
        extensions[n_extensions++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
        stats.pNext = &coopmat;
    }
    if (has_extension(physical, VK_EXT_PIPELINE_ROBUSTNESS_EXTENSION_NAME)) {
        extensions[n_extensions++] = VK_EXT_PIPELINE_ROBUSTNESS_EXTENSION_NAME;
        coopmat.pNext = &robustness;
    }
    vkGetPhysicalDeviceFeatures2(physical, &features);
    features.features.robustBufferAccess = VK_FALSE;

    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority };
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &features,
        .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue,
        .enabledExtensionCount = n_extensions, .ppEnabledExtensionNames = extensions };
    VkDevice device = VK_NULL_HANDLE;
    check(vkCreateDevice(physical, &info, NULL, &device), "vkCreateDevice");
    return device;
}

static VkPipelineLayout make_layout(VkDevice device, const options * opts) {
    VkDescriptorSetLayoutBinding bindings[MAX_BINDINGS];
    for (uint32_t i = 0; i < opts->bindings; i++) {
        bindings[i] = (VkDescriptorSetLayoutBinding) { .binding = i, .descriptorCount = 1,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT };
    }
    const VkDescriptorSetLayoutCreateInfo set_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = opts->bindings, .pBindings = bindings };
    VkDescriptorSetLayout set = VK_NULL_HANDLE;
    check(vkCreateDescriptorSetLayout(device, &set_info, NULL, &set), "vkCreateDescriptorSetLayout");

    const VkPushConstantRange range = { .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = opts->push };
    const VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1, .pSetLayouts = &set,
        .pushConstantRangeCount = opts->push > 0, .pPushConstantRanges = &range };
    VkPipelineLayout layout = VK_NULL_HANDLE;
    check(vkCreatePipelineLayout(device, &info, NULL, &layout), "vkCreatePipelineLayout");
    return layout;
}

static VkPipeline make_pipeline(VkDevice device, const options * opts, const uint32_t * words, size_t size, bool text) {
    const VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = size, .pCode = words };
    VkShaderModule module = VK_NULL_HANDLE;
    check(vkCreateShaderModule(device, &module_info, NULL, &module), "vkCreateShaderModule");

    const VkSpecializationInfo spec = { .mapEntryCount = opts->n_spec, .pMapEntries = opts->spec_entries,
        .dataSize = opts->n_spec * sizeof(uint32_t), .pData = opts->spec_values };
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = opts->subgroup };
    const VkPipelineRobustnessCreateInfoEXT robust = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_ROBUSTNESS_CREATE_INFO_EXT,
        .storageBuffers = VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_ROBUST_BUFFER_ACCESS_EXT,
        .uniformBuffers = VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_ROBUST_BUFFER_ACCESS_EXT };
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .pNext = opts->robust ? &robust : NULL,
        .flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
            (text ? VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR : 0),
        .stage = { .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
            .pNext = opts->subgroup ? &subgroup : NULL,
            .flags = opts->full ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
            .stage = VK_SHADER_STAGE_COMPUTE_BIT, .module = module, .pName = opts->entry, .pSpecializationInfo = &spec },
        .layout = make_layout(device, opts) };
    VkPipeline pipeline = VK_NULL_HANDLE;
    check(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline), "vkCreateComputePipelines");
    return pipeline;
}

static void print_string(const char * before, const char * text) {
    printf("%s\"", before);
    for (; *text; text++) {
        const bool special = *text == '"' || *text == '\\' || (unsigned char) *text < 0x20;
        printf(special ? "\\u%04x" : "%c", (unsigned) (unsigned char) *text);
    }
    putchar('"');
}

static void print_value(const VkPipelineExecutableStatisticKHR * stat) {
    switch (stat->format) {
        case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:  fputs(stat->value.b32 ? "true" : "false", stdout); break;
        case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:   printf("%" PRId64, stat->value.i64); break;
        case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:  printf("%" PRIu64, stat->value.u64); break;
        case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR: printf("%.17g", stat->value.f64); break;
        default: fputs("null", stdout); break;
    }
}

// a compute pipeline is one executable on RADV; where a driver makes several, the first one is read
static VkPipelineExecutableStatisticKHR * get_statistics(VkDevice device, VkPipeline pipeline, uint32_t * count) {
    // the loader exports no device extension functions
    PFN_vkGetPipelineExecutableStatisticsKHR get = (PFN_vkGetPipelineExecutableStatisticsKHR)
        vkGetDeviceProcAddr(device, "vkGetPipelineExecutableStatisticsKHR");
    const VkPipelineExecutableInfoKHR info = { .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline };
    if (!get || get(device, &info, count, NULL) != VK_SUCCESS || *count == 0) {
        die("the driver gives no statistics");
    }
    VkPipelineExecutableStatisticKHR * stats = calloc(*count, sizeof(*stats));
    for (uint32_t i = 0; stats && i < *count; i++) {
        stats[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    }
    if (!stats || get(device, &info, count, stats) != VK_SUCCESS) {
        die("the driver's statistics can't be read");
    }
    return stats;
}

// the text of the machine code: the last representation that the driver gives
static char * get_code(VkDevice device, VkPipeline pipeline) {
    PFN_vkGetPipelineExecutableInternalRepresentationsKHR get = (PFN_vkGetPipelineExecutableInternalRepresentationsKHR)
        vkGetDeviceProcAddr(device, "vkGetPipelineExecutableInternalRepresentationsKHR");
    const VkPipelineExecutableInfoKHR info = { .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline };
    VkPipelineExecutableInternalRepresentationKHR texts[16];
    uint32_t count = sizeof(texts) / sizeof(texts[0]);
    for (uint32_t i = 0; i < count; i++) {
        texts[i] = (VkPipelineExecutableInternalRepresentationKHR) {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR };
    }
    if (!get || get(device, &info, &count, texts) != VK_SUCCESS || count == 0 || !texts[count - 1].isText) {
        die("the driver gives no machine code");
    }
    for (uint32_t i = 0; i < count; i++) {
        texts[i].pData = malloc(texts[i].dataSize + 1);
        if (!texts[i].pData) {
            die("no memory for the machine code");
        }
    }
    if (get(device, &info, &count, texts) != VK_SUCCESS) {
        die("the driver's machine code can't be read");
    }
    char * code = texts[count - 1].pData;
    code[texts[count - 1].dataSize] = '\0';
    return code;
}

// how often each instruction on the LDS is in the code
static void print_lds(char * code) {
    const char * names[MAX_MNEMONICS];
    uint32_t     counts[MAX_MNEMONICS];
    uint32_t     n_names = 0;
    char *       rest    = NULL;
    for (char * line = strtok_r(code, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char * name = line + strspn(line, " \t");
        name[strcspn(name, " \t;")] = '\0';
        if (strncmp(name, "ds_", 3) != 0) {
            continue;
        }
        uint32_t i = 0;
        while (i < n_names && strcmp(names[i], name) != 0) {
            i++;
        }
        if (i == MAX_MNEMONICS) {
            die("more kinds of LDS instructions than %d", MAX_MNEMONICS);
        }
        if (i == n_names) {
            names[n_names]    = name;
            counts[n_names++] = 0;
        }
        counts[i]++;
    }
    fputs(", \"lds\": {", stdout);
    for (uint32_t i = 0; i < n_names; i++) {
        print_string(i ? ", " : "", names[i]);
        printf(": %" PRIu32, counts[i]);
    }
    putchar('}');
}

static void print_device(VkPhysicalDevice physical) {
    VkPhysicalDeviceDriverProperties driver = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES };
    VkPhysicalDeviceProperties2 properties = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &driver };
    vkGetPhysicalDeviceProperties2(physical, &properties);
    print_string("{\"device\": ", properties.properties.deviceName);
    print_string(", \"driver\": ", driver.driverName);
    print_string(", \"version\": ", driver.driverInfo);
}

static bool has_lds(const VkPipelineExecutableStatisticKHR * stats, uint32_t count) {
    while (count > 0 && strcmp(stats[count - 1].name, "LDS size") != 0) {
        count--;
    }
    return count == 0 || stats[count - 1].value.u64 > 0; // where the driver does not say: maybe
}

static void answer(VkPhysicalDevice physical, VkDevice device, const options * opts) {
    size_t size = 0;
    const uint32_t * words = read_spirv(opts->spirv, &size);
    if (!has_entry(words, size / sizeof(uint32_t), opts->entry)) {
        die("%s has no entry point %s", opts->spirv, opts->entry);
    }
    bool       text     = opts->isa && may_use_lds(words, size / sizeof(uint32_t));
    uint32_t   count    = 0;
    VkPipeline pipeline = make_pipeline(device, opts, words, size, text);
    const VkPipelineExecutableStatisticKHR * stats = get_statistics(device, pipeline, &count);
    if (opts->isa && !text && has_lds(stats, count)) { // the driver has its own use for it
        text     = true;
        pipeline = make_pipeline(device, opts, words, size, text);
        stats    = get_statistics(device, pipeline, &count);
    }
    print_device(physical);
    fputs(", \"statistics\": {", stdout);
    for (uint32_t i = 0; i < count; i++) {
        print_string(i ? ", " : "", stats[i].name);
        fputs(": ", stdout);
        print_value(&stats[i]);
    }
    putchar('}');
    if (text) {
        print_lds(get_code(device, pipeline));
    } else if (opts->isa) {
        fputs(", \"lds\": {}", stdout);
    }
    fputs("}\n", stdout);
}

static void answer_line(VkPhysicalDevice physical, VkDevice device, char * line) {
    char * words[MAX_WORDS + 2] = { NULL };
    int    n_words = 1; // as argv, whose first word is the program
    char * rest    = NULL;
    for (char * word = strtok_r(line, "\t\n", &rest); word; word = strtok_r(NULL, "\t\n", &rest)) {
        if (n_words > MAX_WORDS) {
            die("more than %d words in a line", MAX_WORDS);
        }
        words[n_words++] = word;
    }
    const options opts = parse_options(n_words, words);
    answer(physical, device, &opts);
}

static void run_batch(VkPhysicalDevice physical, VkDevice device) {
    char * line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        fflush(stdout);
        const pid_t child = fork();
        if (child < 0) {
            die("can't fork: %s", strerror(errno));
        } else if (child == 0) {
            answer_line(physical, device, line);
            fflush(stdout);
            _exit(0); // the parent's objects are not ours to tear down
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child) {
            die("can't wait: %s", strerror(errno));
        }
        if (WIFSIGNALED(status)) {
            printf("{\"error\": \"the compiler was ended by signal %d\"}\n", WTERMSIG(status));
        } else if (WEXITSTATUS(status) != 0) {
            printf("{\"error\": \"the compiler answered %d\"}\n", WEXITSTATUS(status));
        }
    }
}

int main(int argc, char ** argv) {
    const bool batch = argc == 2 && strcmp(argv[1], "--batch") == 0;
    const bool probe = argc == 2 && strcmp(argv[1], "--device") == 0;
    options    opts  = { 0 };
    if (!batch && !probe) {
        opts = parse_options(argc, argv);
    }
    const VkPhysicalDevice physical = first_device();
    const VkDevice         device   = make_device(physical);
    if (batch) {
        run_batch(physical, device);
    } else if (probe) {
        print_device(physical);
        fputs("}\n", stdout);
    } else {
        answer(physical, device, &opts);
    }
    return fflush(stdout) ? 1 : 0; // the process ends here: the driver's objects go with it
}
