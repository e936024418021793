// Drive the controller of adaptive draft lengths without a model.
//
// Reads a scenario from stdin, one "key value..." a line, plays it and prints one JSON object.
//   policy adaptive | ema | fixed N     n_seq N   n_min N   n_max N   tokens N   seed N
//   verify_ms V1 V2 ...                 time of a batch by width, the last step continues
//   draft_ms FLAT STEP                  time of a round of drafting: flat, and per step of the longest draft
//   stall X                             a batch of a new width, and the first after a new number of accepted tokens,
//                                       takes X times as long (a GPU that compiles what it has not run yet)
//   stall_ms X                          the first batch of a width takes X longer (its pipelines are compiled)
//   change X Y                          a batch of another width than the last one takes X ms longer (a new graph),
//                                       a longest draft of another length than in the last round Y ms
//   rough SD N                          log-normal noise SD of the times in the first N rounds
//   burst P N                           other work: N rounds take 2 to 5 times as long, it begins with probability P a round
//   warm X                              the first round takes X times as long, later ones less and less so (8 rounds: 1/e)
//   tail P X                            with probability P a time is longer, by an exponential share of mean X
//   noise SD   drift X                  log-normal noise of each time, total slow-down at the end (1 = none)
//   phase SEQ TOKENS A1 A2 ...          acceptance of each position given the one before, repeats cyclically
//   reach R                             probability that the drafter goes on to the next token (p_min)
//   replay 0|1                          a partly accepted draft is evaluated again
//   request N                           tokens per request, the slot is reused (0: one request)
//   reuse N                             the slots begin anew once, after N tokens of the first
//   mixed P                             probability that a batch also holds a prompt
//   skip N                              tokens of the first sequence that are not counted
//   hostile N                           N rounds of senseless limits, results and times before the game
#include "speculative-adaptive.h"

#include <cmath>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

static double cpu_ns() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9*t.tv_sec + t.tv_nsec;
}

using vec = std::vector<double>;

struct phase {
    double n_tokens;
    vec    rates;
};

struct scenario {
    std::string policy = "adaptive";
    int    fixed = 0, n_seq = 1, n_min = 0, n_max = 7, seed = 1, request = 0, n_rough = 0, n_burst = 0;
    double n_tokens = 4000, flat = 0, step = 0, noise = 0, drift = 1, reach = 1, stall = 1, stall_ms = 0, change = 0, change_draft = 0, rough = 0, burst = 0, tail = 0, tail_mean = 0, warm = 1, mixed = 0, skip = 0, reuse = 0, hostile = 0;
    bool   replay = false;
    vec    verify = { 1, 2 };

    std::vector<std::vector<phase>> phases;
};

static scenario read_scenario(std::istream & in) {
    scenario s;
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        std::string key;
        words >> key;
        if (key == "policy") {
            words >> s.policy >> s.fixed;
        } else if (key == "n_seq") {
            words >> s.n_seq;
        } else if (key == "n_min") {
            words >> s.n_min;
        } else if (key == "n_max") {
            words >> s.n_max;
        } else if (key == "tokens") {
            words >> s.n_tokens;
        } else if (key == "seed") {
            words >> s.seed;
        } else if (key == "verify_ms") {
            s.verify.clear();
            for (double v; words >> v;) {
                s.verify.push_back(v);
            }
        } else if (key == "draft_ms") {
            words >> s.flat >> s.step;
        } else if (key == "stall") {
            words >> s.stall;
        } else if (key == "stall_ms") {
            words >> s.stall_ms;
        } else if (key == "change") {
            words >> s.change >> s.change_draft;
        } else if (key == "rough") {
            words >> s.rough >> s.n_rough;
        } else if (key == "burst") {
            words >> s.burst >> s.n_burst;
        } else if (key == "warm") {
            words >> s.warm;
        } else if (key == "tail") {
            words >> s.tail >> s.tail_mean;
        } else if (key == "noise") {
            words >> s.noise;
        } else if (key == "drift") {
            words >> s.drift;
        } else if (key == "reach") {
            words >> s.reach;
        } else if (key == "replay") {
            words >> s.replay;
        } else if (key == "request") {
            words >> s.request;
        } else if (key == "mixed") {
            words >> s.mixed;
        } else if (key == "skip") {
            words >> s.skip;
        } else if (key == "reuse") {
            words >> s.reuse;
        } else if (key == "hostile") {
            words >> s.hostile;
        } else if (key == "phase") {
            size_t seq;
            phase p;
            words >> seq >> p.n_tokens;
            for (double v; words >> v;) {
                p.rates.push_back(v);
            }
            s.phases.resize(std::max(s.phases.size(), seq + 1));
            s.phases[seq].push_back(p);
        }
    }
    return s;
}

struct slot {
    double n_tokens   = 0;  // generated so far
    double n_request  = 0;  // in this request
    double ema        = 2;  // of the baseline
    int    n_replay   = -1; // accepted tokens to evaluate again
};

struct game {
    const scenario & s;
    std::mt19937 rng;
    std::unique_ptr<common_speculative_adaptive> ctl;
    std::vector<slot> slots;
    std::vector<int> trace;
    double t_ms = 0, n_tokens = 0, t_skip = 0, n_skip = 0, ns = 0;
    std::vector<bool> width_used, accepted_used;
    bool is_cold = false; // the next batch prepares for a new number of accepted tokens
    int n_rounds = 0, n_switch = 0, last = -1, n_bad = 0, burst_left = 0, width_last = 0, n_long_last = 0;

    explicit game(const scenario & s) : s(s), rng(s.seed), slots(s.n_seq) {
        ctl = std::make_unique<common_speculative_adaptive>(s.n_seq, s.n_min, s.n_max);
    }

    double uniform() { return std::uniform_real_distribution<double>(0, 1)(rng); }

    double progress() const { return slots[0].n_tokens/s.n_tokens; }

    double noisy(double t) {
        t *= 1.0 + (s.drift - 1.0)*progress();
        t *= 1.0 + (s.warm - 1.0)*std::exp(-n_rounds/8.0);
        if (burst_left > 0) {
            t *= 2 + 3*uniform();
        }
        if (s.tail > 0 && uniform() < s.tail) {
            t *= 1 - s.tail_mean*std::log(1 - uniform());
        }
        const double noise = n_rounds < s.n_rough ? s.rough : s.noise;
        return noise > 0 ? t*std::exp(noise*std::normal_distribution<double>(0, 1)(rng)) : t;
    }

    static bool is_new(std::vector<bool> & used, size_t i) {
        used.resize(std::max(used.size(), i + 1));
        const bool res = !used[i];
        used[i] = true;
        return res;
    }

    double verify(int width) const {
        const int n = (int) s.verify.size();
        if (width <= n) {
            return s.verify[width - 1];
        }
        return s.verify[n - 1] + (width - n)*(s.verify[n - 1] - s.verify[n - 2]);
    }

    const vec & rates(int id) const {
        const auto & all = s.phases[std::min((size_t) id, s.phases.size() - 1)];
        double total = 0;
        for (const auto & p : all) {
            total += p.n_tokens;
        }
        double at = std::fmod(slots[id].n_tokens, total);
        for (const auto & p : all) {
            if (at < p.n_tokens) {
                return p.rates;
            }
            at -= p.n_tokens;
        }
        return all.back().rates;
    }

    double rate(int id, int i) const {
        const auto & r = rates(id);
        return r[std::min((size_t) i, r.size() - 1)];
    }

    std::vector<int32_t> lengths() {
        std::vector<int32_t> n(s.n_seq, s.n_max);
        for (int id = 0; id < s.n_seq; ++id) {
            if (slots[id].n_replay >= 0) {
                n[id] = -1;
            } else if (s.request > 0) {
                n[id] = std::min(n[id], std::max(0, (int) (s.request - slots[id].n_request) - 1));
            }
        }
        const auto limit = n;
        if (s.policy == "adaptive") {
            const double t0 = cpu_ns();
            ctl->plan(n);
            ns += cpu_ns() - t0;
        }
        for (int id = 0; id < s.n_seq; ++id) {
            if (s.policy == "fixed" && limit[id] >= 0) {
                n[id] = std::min(limit[id], s.fixed);
            }
            if (s.policy == "ema" && limit[id] >= 0) {
                n[id] = std::min(limit[id], std::max(std::max(1, s.n_min), std::min(s.n_max, (int) std::lround(slots[id].ema))));
            }
            const bool short_draft = n[id] > 0 && n[id] < s.n_min;
            n_bad += (limit[id] >= 0 && n[id] > limit[id]) || (n[id] < 0 && limit[id] >= 0) || (s.policy == "adaptive" && short_draft);
            if (short_draft) {
                n[id] = 0;
            }
        }
        return n;
    }

    void round() {
        const auto plan = lengths();

        int n_long = 0, width = 0;
        std::vector<int> drafted(s.n_seq, 0);
        for (int id = 0; id < s.n_seq; ++id) {
            if (plan[id] < 0) {
                width += slots[id].n_replay + 2;
                continue;
            }
            while (drafted[id] < plan[id] && (s.reach >= 1 || uniform() < s.reach)) {
                drafted[id]++;
            }
            const int steps = plan[id] > 0 ? std::min(plan[id], drafted[id] + 1) : 0;
            n_long = std::max(n_long, steps);
            if (drafted[id] < s.n_min) {
                drafted[id] = 0;
            }
            ctl->drafted(id, drafted[id]);
            width += drafted[id] + 1;
        }

        burst_left--;
        if (s.burst > 0 && burst_left <= 0 && uniform() < s.burst) {
            burst_left = s.n_burst;
        }
        const double t_draft = n_long > 0 ? noisy(s.flat + s.step*n_long) + (n_long != n_long_last ? s.change_draft : 0) : 0;
        const bool   mixed   = s.mixed > 0 && uniform() < s.mixed;
        const bool   first   = is_new(width_used, width);
        const double t_batch = noisy(verify(width)*(mixed ? 5 : 1)*(first || is_cold ? s.stall : 1)) + (first ? s.stall_ms : 0) + (width != width_last ? s.change : 0);
        width_last = width;
        n_long_last = n_long;
        is_cold = false;
        if (n_long > 0) {
            ctl->time_draft(1000*t_draft);
        }
        if (!mixed) {
            ctl->time_batch(width, 1000*t_batch);
        }
        const double before = n_tokens;
        for (int id = 0; id < s.n_seq; ++id) {
            finish(id, plan[id], drafted[id]);
        }
        t_ms += t_draft + t_batch;
        if (slots[0].n_tokens < s.skip) {
            t_skip += t_draft + t_batch;
            n_skip += n_tokens - before;
        }
        if (plan[0] >= 0) {
            trace.push_back(plan[0]);
            n_switch += last >= 0 && plan[0] != last;
            last = plan[0];
        }
        n_rounds++;
    }

    void hostile() {
        std::vector<int32_t> n(s.n_seq);
        for (auto & v : n) {
            v = (int32_t) (uniform()*(s.n_max + 6)) - 3;
        }
        const auto limit = n;
        ctl->plan(n);
        const double times[] = { 0, -1, 1e-6, 1, 1e12 };
        ctl->time_draft(times[(int) (uniform()*5)]);
        for (int id = 0; id < s.n_seq; ++id) {
            const int top = std::min(limit[id], s.n_max);
            n_bad += limit[id] < 0 ? n[id] != limit[id] : n[id] < 0 || n[id] > top || (n[id] > 0 && n[id] < s.n_min);
            if (n[id] > 0) {
                ctl->drafted(id, (int) (uniform()*(n[id] + 1)));
                const int drafted = 1 + (int) (uniform()*64);
                ctl->accepted(id, drafted, (int) (uniform()*(drafted + 1)), uniform() < 0.5);
            }
            for (int i = 0; i < s.n_max; ++i) {
                const double a = ctl->acceptance(id, i);
                n_bad += !(a > 0 && a < 1);
            }
            if (uniform() < 0.05) {
                ctl->begin(id);
            }
        }
        ctl->time_batch((int) (uniform()*200) - 10, times[(int) (uniform()*5)]);
    }

    void finish(int id, int plan, int drafted) {
        auto & sl = slots[id];
        int n_new = 1;
        if (plan < 0) {
            n_new = sl.n_replay + 2;
            sl.n_replay = -1;
        } else if (drafted > 0) {
            int n_acc = 0;
            while (n_acc < drafted && uniform() < rate(id, n_acc)) {
                n_acc++;
            }
            is_cold |= is_new(accepted_used, n_acc);
            const bool replay = s.replay && n_acc < drafted;
            ctl->accepted(id, drafted, n_acc, replay);
            sl.ema = n_acc >= plan ? sl.ema + 1 : 0.75*sl.ema + 0.25*n_acc;
            sl.ema = std::min(sl.ema, (double) s.n_max);
            n_new  = replay ? 0 : n_acc + 1;
            sl.n_replay = replay ? n_acc : -1;
        }
        n_tokens     += n_new;
        sl.n_tokens  += n_new;
        sl.n_request += n_new;
        if (s.request > 0 && sl.n_request >= s.request) {
            sl = { sl.n_tokens, 0, 2, -1 };
            ctl->begin(id);
        }
    }
};

int main() {
    const scenario s = read_scenario(std::cin);
    game g(s);
    for (int i = 0; i < s.hostile; ++i) {
        g.hostile();
    }
    for (int id = 0; id < s.n_seq; ++id) {
        g.ctl->begin(id);
    }
    while (g.slots[0].n_tokens < s.n_tokens) {
        const bool is_before = g.slots[0].n_tokens < s.reuse;
        g.round();
        for (int id = 0; id < s.n_seq && is_before && g.slots[0].n_tokens >= s.reuse; ++id) {
            g.ctl->begin(id);
        }
    }
    printf("{\"tokens\": %.0f, \"ms\": %.6f, \"rounds\": %d, \"switches\": %d, \"bad\": %d, \"ns\": %.1f, ",
            g.n_tokens - g.n_skip, g.t_ms - g.t_skip, g.n_rounds, g.n_switch, g.n_bad, g.ns/g.n_rounds);
    printf("\"acceptance\": [");
    for (int i = 0; i < s.n_max; ++i) {
        printf("%s%.4f", i ? ", " : "", g.ctl->acceptance(0, i));
    }
    printf("], \"lengths\": [");
    for (size_t i = 0; i < g.trace.size(); ++i) {
        printf("%s%d", i ? ", " : "", g.trace[i]);
    }
    printf("]}\n");
    return 0;
}
