// Host functions as HIP 6 declares them, for upstream's host code under the older headers of
// Debian 13: clang checks it even where only device code is wanted. No kernel sees any of this.
#pragma once
#include <hip/hip_runtime.h>
#include <hip/hip_version.h>
#include <hipblas/hipblas.h>

#if HIP_VERSION_MAJOR < 6
static inline hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event) {
    return hipStreamWaitEvent(stream, event, 0);
}

static inline hipblasStatus_t hipblasStrsmBatched(
        hipblasHandle_t handle, hipblasSideMode_t side, hipblasFillMode_t uplo,
        hipblasOperation_t trans, hipblasDiagType_t diag, int m, int n, const float * alpha,
        const float * const * a, int lda, float ** b, int ldb, int batches) {
    return hipblasStrsmBatched(handle, side, uplo, trans, diag, m, n, alpha,
        const_cast<float * const *>(a), lda, b, ldb, batches);
}
#endif
