// Loads the files that stdin names, one a line, as llama-quantize does: all tensors, with tensor
// checking, with and without mmap. Everything is decoded without checking as well. Answers each
// line with the text of the refusal, or with "loaded"; what the sanitizers or an assertion find
// ends the program instead.

#include "ggml.h"
#include "llama-impl.h"
#include "llama-model-loader.h"
#include "llama.h"

#include <cmath>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

// splits are no subject here, the real ones need all of llama.cpp
int32_t llama_split_path(char *, size_t, const char *, int32_t, int32_t) { return 0; }
int32_t llama_split_prefix(char *, size_t, const char *, int32_t, int32_t) { return 0; }

static std::string errors;

static void keep_errors(ggml_log_level level, const char * text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR) {
        errors += text;
    }
}

static void decode(const llama_model_loader::llama_tensor_weight & weight, const void * data) {
    const ggml_type_traits * traits = ggml_get_type_traits(weight.tensor->type);
    if (traits->to_float == nullptr) {
        return;
    }
    const bool         is_rocmfpx = strstr(traits->type_name, "rocmfp") != nullptr;
    const size_t       row_size   = ggml_row_size(weight.tensor->type, weight.tensor->ne[0]);
    std::vector<float> row(weight.tensor->ne[0]);
    for (int64_t i = 0; i < ggml_nrows(weight.tensor); ++i) {
        traits->to_float((const char *) data + i*row_size, row.data(), weight.tensor->ne[0]);
        for (float value : row) {
            if (is_rocmfpx && !std::isfinite(value)) {
                throw std::logic_error("decoded a value that is not finite");
            }
        }
    }
}

static void load(const std::string & path, llama_load_mode mode, bool check) {
    std::vector<std::string> splits;
    llama_model_loader loader(
        nullptr, nullptr, nullptr, path, splits, nullptr, mode, check, false, true, nullptr, nullptr);
    loader.init_mappings(false);
    std::vector<char> buffer;
    for (const auto & [name, weight] : loader.weights_map) {
        buffer.resize(loader.use_mmap ? 0 : ggml_nbytes(weight.tensor));
        const size_t size = ggml_nbytes(weight.tensor);
        decode(weight, loader.load_data_range(weight, 0, size, buffer.data()));
    }
}

static std::string refusal(const std::string & path, llama_load_mode mode, bool check) {
    errors.clear();
    try {
        load(path, mode, check);
    } catch (const std::logic_error &) {
        throw;
    } catch (const std::exception & error) {
        return errors + error.what();
    }
    return "";
}

static std::string answer(const std::string & path) {
    const std::string plain  = refusal(path, LLAMA_LOAD_MODE_NONE, true);
    const std::string mapped = refusal(path, LLAMA_LOAD_MODE_MMAP, true);
    if (plain.empty() != mapped.empty()) {
        throw std::logic_error("mmap changes whether the file is refused: " + plain + mapped);
    }
    refusal(path, LLAMA_LOAD_MODE_NONE, false);
    return plain.empty() ? "loaded" : plain;
}

int main() {
    ggml_log_set(keep_errors, nullptr);
    llama_log_set(keep_errors, nullptr);
    for (std::string path; std::getline(std::cin, path);) {
        std::string said = answer(path);
        for (char & c : said) {
            c = c >= ' ' && c <= '~' ? c : ' ';
        }
        std::cout << said << std::endl;
    }
}
