// Included before ggml-vulkan.cpp of a copy of the tree: prints every pipeline that the host code
// sets up, as one line of JSON on the file descriptor LAB_RECORD_FD, each once.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <vector>

// the name in the OpString of recording_glslc's modules
static std::string lab_shader_name(const void * data, size_t size) {
    const uint32_t * words = (const uint32_t *) data;
    for (size_t i = 5; data && i < size / 4 && words[i] >> 16; i += words[i] >> 16) {
        if ((words[i] & 0xffff) == 7) {
            return (const char *) &words[i + 2];
        }
    }
    return "";
}

static void lab_record_pipeline(const char * name, const void * data, size_t size, uint32_t bindings, uint32_t push,
                                const std::vector<uint32_t> & spec, bool no_robustness, bool full, uint32_t subgroup) {
    static std::mutex            mutex;
    static std::set<std::string> seen;
    const char * number = getenv("LAB_RECORD_FD");
    if (!number) {
        return;
    }
    std::string line = "{\"pipeline\": \"" + std::string(name) + "\", \"shader\": \"" + lab_shader_name(data, size) + "\", \"spec\": [";
    for (size_t i = 0; i < spec.size(); i++) {
        line += (i ? ", " : "") + std::to_string(spec[i]);
    }
    line += "], \"bindings\": " + std::to_string(bindings) + ", \"push\": " + std::to_string(push);
    line += std::string(", \"robust\": ") + (no_robustness ? "false" : "true") + ", \"full\": " + (full ? "true" : "false");
    line += ", \"subgroup\": " + std::to_string(subgroup) + "}\n";
    std::lock_guard<std::mutex> lock(mutex);
    if (seen.insert(line).second) {
        dprintf(atoi(number), "%s", line.c_str());
    }
}
