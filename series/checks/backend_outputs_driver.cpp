// Compares what the backend samplers of several sequences output with the logits of a context without samplers.
//
//     backend_outputs_driver TARGET EAGLE3
//
// An EAGLE3 drafter alternates between its encoder, decodes without an output and decodes with outputs of some of the
// sequences. So the memory of a decode is planned while no sampler is active, and used while some are.
// Prints one JSON object: the rows compared, and those that are wrong.
#include "common.h"
#include "llama-cpp.h"
#include "llama.h"
#include "llama-ext.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <set>
#include <vector>

static const int N_SEQ = 4;
static const int TOP_K = 8;

struct drafter {
    llama_context_ptr ctx;
    int n_embd_enc;
    int n_embd_dec;
    std::vector<llama_pos> pos = std::vector<llama_pos>(N_SEQ, 0);

    bool encode() {
        const std::vector<float> features(n_embd_enc, 0.5f);
        const llama_pos p = pos[0];
        common_batch batch(ctx.get());
        batch.add_embd({ features.data(), 1, features.size() }, &p, 0, true);
        return llama_process(ctx.get(), LLAMA_PROCESS_TYPE_ENCODE, batch.get()) == 0;
    }

    bool decode(const std::vector<int> & seqs, bool output) {
        const std::vector<float> g_embd(n_embd_dec, 0.25f);
        common_batch batch(ctx.get());
        for (int seq : seqs) {
            const int idx = batch.add(32 + (7 * pos[seq] + 3 * seq) % 64, pos[seq], seq, output);
            batch.set_embd(idx, { g_embd.data(), 1, g_embd.size() });
            pos[seq]++;
        }
        return llama_process(ctx.get(), LLAMA_PROCESS_TYPE_DECODE, batch.get()) == 0;
    }
};

static drafter open_drafter(llama_model * model, llama_context * target, std::vector<llama_sampler_seq_config> configs) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx      = 512;
    params.n_seq_max  = N_SEQ;
    params.kv_unified = true;
    params.ctx_other  = target;
    params.samplers   = configs.data();
    params.n_samplers = configs.size();
    drafter res = { llama_context_ptr(llama_init_from_model(model, params)), 0, llama_model_n_embd(model) };
    res.n_embd_enc = (int) llama_model_target_layer_ids_n(model) * llama_model_n_embd(llama_get_model(target));
    if (res.ctx) {
        llama_set_embeddings_nextn(res.ctx.get(), true, true);
    }
    return res;
}

static std::set<llama_token> best(llama_context * ctx, int i, int n_vocab) {
    const float * logits = llama_get_logits_ith(ctx, i);
    std::vector<llama_token> ids(n_vocab);
    std::iota(ids.begin(), ids.end(), 0);
    std::partial_sort(ids.begin(), ids.begin() + TOP_K, ids.end(), [&](llama_token a, llama_token b) { return logits[a] > logits[b]; });
    return std::set<llama_token>(ids.begin(), ids.begin() + TOP_K);
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        return 2;
    }
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    llama_model_ptr target(llama_model_load_from_file(argv[1], params));
    llama_model_ptr model(llama_model_load_from_file(argv[2], params));
    if (!target || !model) {
        return 3;
    }
    llama_context_ptr ctx_target(llama_init_from_model(target.get(), llama_context_default_params()));
    std::vector<llama_sampler_ptr> chains;
    std::vector<llama_sampler_seq_config> configs;
    for (int seq = 0; seq < N_SEQ; ++seq) {
        chains.emplace_back(llama_sampler_chain_init(llama_sampler_chain_default_params()));
        llama_sampler_chain_add(chains.back().get(), llama_sampler_init_top_k(TOP_K));
        configs.push_back({ seq, chains.back().get() });
    }
    drafter sampled = open_drafter(model.get(), ctx_target.get(), configs);
    drafter plain   = open_drafter(model.get(), ctx_target.get(), {});
    if (!sampled.ctx || !plain.ctx) {
        return 3;
    }
    const int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model.get()));
    const std::vector<int> all = { 0, 1, 2, 3 };
    int rows = 0;
    int wrong = 0;
    for (const auto & seqs : std::vector<std::vector<int>>{ all, { 0, 1 }, { 2, 3 }, { 0, 1, 2 }, { 1, 2, 3 }, { 3 }, all }) {
        for (drafter * d : { &sampled, &plain }) {
            if (!d->encode() || !d->decode(all, false) || !d->decode(seqs, true)) {
                return 3;
            }
        }
        for (int i = 0; i < (int) seqs.size(); ++i) {
            const llama_token * ids = llama_get_sampled_candidates_ith(sampled.ctx.get(), i);
            const uint32_t n = llama_get_sampled_candidates_count_ith(sampled.ctx.get(), i);
            wrong += std::set<llama_token>(ids, ids + n) != best(plain.ctx.get(), i, n_vocab);
            rows++;
        }
    }
    printf("{\"rows\": %d, \"wrong\": %d}\n", rows, wrong);
    return 0;
}
