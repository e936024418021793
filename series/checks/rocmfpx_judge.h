// What the drivers of the ROCmFPx checks share: scales of the format's description, and the count of
// what holds.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

using row = std::vector<float>;

struct tally {
    long        cases = 0, failures = 0;
    std::string first;

    void count(bool holds, const std::string & what) {
        cases++;
        if (!holds && failures++ == 0) {
            first = what;
        }
    }

    // the result, one JSON object, and the exit status
    int report() const {
        printf("{\"cases\": %ld, \"failures\": %ld, \"first\": \"%s\"}\n", cases, failures, first.c_str());
        return failures > 0;
    }
};

// unsigned E4M3 with half the value; 0x7F and above are invalid and decode to 0
static inline float scale_of(int e) {
    if (e > 0x7E) {
        return 0;
    }
    const int E = e >> 3, m = e & 7;
    return E == 0 ? std::ldexp((float) m, -10) : std::ldexp((float) (8 + m), E - 11);
}

static inline bool same_bits(float a, float b) {
    return std::memcmp(&a, &b, sizeof(a)) == 0;
}
