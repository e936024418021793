// What ggml-cuda's headers need to compile as plain C++: device functions become ordinary ones.
//
// Compiled as for a GPU older than all (no __CUDA_ARCH__): the paths without tensor cores. Nothing
// of a launch is here: no blocks of threads, no barriers, no shuffles. threadIdx is a variable.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#define __device__
#define __host__
#define __global__
#define __shared__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define CUDART_VERSION 11070
#define GGML_CUDA_NO_VMM

template <typename T, int N> struct vec;
template <typename T> struct alignas(2*sizeof(T)) vec<T, 2> { T x, y; };
template <typename T> struct vec<T, 3> { T x, y, z; };
template <typename T> struct alignas(4*sizeof(T)) vec<T, 4> { T x, y, z, w; };

using char2  = vec<int8_t, 2>;
using char4  = vec<int8_t, 4>;
using short2 = vec<int16_t, 2>;
using uchar2 = vec<uint8_t, 2>;
using uchar4 = vec<uint8_t, 4>;
using int2   = vec<int, 2>;
using int3   = vec<int, 3>;
using int4   = vec<int, 4>;
using uint2  = vec<uint32_t, 2>;
using uint3  = vec<uint32_t, 3>;
using uint4  = vec<uint32_t, 4>;
using float2 = vec<float, 2>;
using float3 = vec<float, 3>;
using float4 = vec<float, 4>;
using longlong2 = vec<long long, 2>;

struct dim3 {
    uint32_t x, y, z;
    dim3(uint32_t x = 1, uint32_t y = 1, uint32_t z = 1) : x(x), y(y), z(z) {}
};

static inline int2   make_int2(int x, int y) { return { x, y }; }
static inline char4  make_char4(int8_t x, int8_t y, int8_t z, int8_t w) { return { x, y, z, w }; }
static inline uint2  make_uint2(uint32_t x, uint32_t y) { return { x, y }; }
static inline uint3  make_uint3(uint32_t x, uint32_t y, uint32_t z) { return { x, y, z }; }
static inline float2 make_float2(float x, float y) { return { x, y }; }
static inline float4 make_float4(float x, float y, float z, float w) { return { x, y, z, w }; }

static uint3 threadIdx, blockIdx;
static dim3  blockDim, gridDim;

// A launch, one thread after the other: for (launch l(grid, block); l.next();) kernel(...);
struct launch {
    uint64_t at = 0;
    launch(dim3 grid, dim3 block, size_t = 0, const void * = nullptr) { gridDim = grid, blockDim = block; }
    bool next() {
        uint64_t n = at++;
        for (auto [index, size] : { std::pair(&threadIdx, &blockDim), std::pair(&blockIdx, &gridDim) }) {
            *index = { (uint32_t) (n % size->x), (uint32_t) (n / size->x % size->y), (uint32_t) (n / size->x / size->y % size->z) };
            n /= (uint64_t) size->x * size->y * size->z;
        }
        return n == 0;
    }
};

// -- half and bfloat16: converted by ggml

extern "C" float    ggml_fp16_to_fp32(uint16_t);
extern "C" uint16_t ggml_fp32_to_fp16(float);

struct half {
    uint16_t bits;
    half() = default;
    half(float x) : bits(ggml_fp32_to_fp16(x)) {}
    operator float() const { return ggml_fp16_to_fp32(bits); }
};

struct nv_bfloat16 {
    uint16_t bits;
    nv_bfloat16() = default;
    nv_bfloat16(float x) { uint32_t u; memcpy(&u, &x, 4); bits = (u + 0x7FFF + ((u >> 16) & 1)) >> 16; }
    operator float() const { const uint32_t u = (uint32_t) bits << 16; float x; memcpy(&x, &u, 4); return x; }
};

struct half2         { half x, y; };
struct nv_bfloat162  { nv_bfloat16 x, y; };
typedef nv_bfloat16  __nv_bfloat16;
typedef nv_bfloat162 __nv_bfloat162;

static inline float  __half2float(half x) { return x; }
static inline half   __float2half(float x) { return x; }
static inline half   __float2half_rn(float x) { return x; }
static inline float  __low2float(half2 x) { return x.x; }
static inline float  __high2float(half2 x) { return x.y; }
static inline half   __low2half(half2 x) { return x.x; }
static inline half   __high2half(half2 x) { return x.y; }
static inline float2 __half22float2(half2 x) { return { x.x, x.y }; }
static inline half2  make_half2(float x, float y) { return { x, y }; }
static inline half2  __float22half2_rn(float2 x) { return { x.x, x.y }; }
static inline half2  __floats2half2_rn(float x, float y) { return { x, y }; }
static inline half2  __half2half2(half x) { return { x, x }; }
static inline half2  __hadd2(half2 a, half2 b) { return { (float) a.x + (float) b.x, (float) a.y + (float) b.y }; }
static inline half2  __hmul2(half2 a, half2 b) { return { (float) a.x * (float) b.x, (float) a.y * (float) b.y }; }
static inline half2  operator*(half2 a, half2 b) { return __hmul2(a, b); }
static inline half2  __hmax2(half2 a, half2 b) { return { std::max<float>(a.x, b.x), std::max<float>(a.y, b.y) }; }
static inline float  __bfloat162float(nv_bfloat16 x) { return x; }
static inline nv_bfloat16 __float2bfloat16(float x) { return x; }
static inline float2 __bfloat1622float2(nv_bfloat162 x) { return { x.x, x.y }; }
static inline nv_bfloat162 __float22bfloat162_rn(float2 x) { return { x.x, x.y }; }

// -- intrinsics

static inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t s) {
    const uint64_t both = (uint64_t) y << 32 | x;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        r |= (uint32_t) (uint8_t) (both >> 8*(s >> 4*i & 7)) << 8*i;
    }
    return r;
}

static inline uint32_t per_byte(uint32_t a, uint32_t b, int (*f)(int, int)) {
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        r |= (uint32_t) (uint8_t) f(a >> 8*i & 0xFF, b >> 8*i & 0xFF) << 8*i;
    }
    return r;
}

static inline uint32_t __vsub4(uint32_t a, uint32_t b) { return per_byte(a, b, [](int x, int y) { return x - y; }); }
static inline uint32_t __vadd4(uint32_t a, uint32_t b) { return per_byte(a, b, [](int x, int y) { return x + y; }); }
static inline uint32_t __vsubss4(uint32_t a, uint32_t b) {
    return per_byte(a, b, [](int x, int y) { return std::clamp((int8_t) x - (int8_t) y, -128, 127); });
}
static inline uint32_t __vcmpne4(uint32_t a, uint32_t b) { return per_byte(a, b, [](int x, int y) { return x != y ? 0xFF : 0; }); }
static inline uint32_t __vcmpeq4(uint32_t a, uint32_t b) { return per_byte(a, b, [](int x, int y) { return x == y ? 0xFF : 0; }); }

static inline int      __popc(uint32_t x) { return __builtin_popcount(x); }
static inline int      __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int      __ffs(int x) { return __builtin_ffs(x); }
static inline uint32_t __umulhi(uint32_t a, uint32_t b) { return (uint64_t) a * b >> 32; }
static inline float    __uint_as_float(uint32_t x) { float f; memcpy(&f, &x, 4); return f; }
static inline uint32_t __float_as_uint(float f) { uint32_t x; memcpy(&x, &f, 4); return x; }
static inline float    __int_as_float(int x) { return __uint_as_float(x); }
static inline float    __fdividef(float a, float b) { return a / b; }
static inline float    rsqrtf(float x) { return 1.0f / std::sqrt(x); }

using std::min;
using std::max;
static inline int64_t  min(int64_t a, int b) { return std::min<int64_t>(a, b); }
static inline uint32_t min(uint32_t a, int b) { return std::min<uint32_t>(a, b); }

// what would need other threads ends the program
static inline void __trap() { abort(); }
static inline void __syncthreads() { abort(); }
static inline void __syncwarp() { abort(); }
template <typename T> static inline T __shfl_xor_sync(uint32_t, T, int, int = 32) { abort(); }
template <typename T> static inline T __shfl_up_sync(uint32_t, T, int, int = 32) { abort(); }
template <typename T> static inline T __shfl_sync(uint32_t, T, int, int = 32) { abort(); }
static inline int __any_sync(uint32_t, int) { abort(); }
static inline int __all_sync(uint32_t, int) { abort(); }

// -- the host's side

typedef struct stand_in * cudaStream_t, * cudaEvent_t, * cublasHandle_t, * cudaGraph_t, * cudaGraphExec_t, * cudaGraphNode_t;
typedef int cudaError_t, cublasStatus_t, cublasMath_t, CUresult, CUdevice, cudaDataType_t;
typedef uint64_t CUdeviceptr, CUmemGenericAllocationHandle;
enum cuda_names { cudaSuccess, CUBLAS_STATUS_SUCCESS = 0, CUDA_SUCCESS = 0 };
enum cublas_names {
    CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_ALLOC_FAILED, CUBLAS_STATUS_INVALID_VALUE, CUBLAS_STATUS_ARCH_MISMATCH,
    CUBLAS_STATUS_MAPPING_ERROR, CUBLAS_STATUS_EXECUTION_FAILED, CUBLAS_STATUS_INTERNAL_ERROR, CUBLAS_STATUS_NOT_SUPPORTED,
};
enum cuda_flags {
    cudaFuncAttributeMaxDynamicSharedMemorySize, cudaStreamNonBlocking, cudaEventDisableTiming, CUBLAS_TF32_TENSOR_OP_MATH,
};
struct cudaKernelNodeParams {};

template <typename... A> static inline cudaError_t cudaGetLastError(A...) { return cudaSuccess; }

#define NEVER_CALLED(result, name) template <typename... A> static inline result name(A...) { abort(); }
NEVER_CALLED(cudaError_t, cudaGetDevice)
NEVER_CALLED(cudaError_t, cudaSetDevice)
NEVER_CALLED(cudaError_t, cudaPeekAtLastError)
NEVER_CALLED(cudaError_t, cudaMalloc)
NEVER_CALLED(cudaError_t, cudaFree)
NEVER_CALLED(cudaError_t, cudaFuncSetAttribute)
NEVER_CALLED(cudaError_t, cudaStreamCreateWithFlags)
NEVER_CALLED(cudaError_t, cudaEventCreateWithFlags)
NEVER_CALLED(cudaError_t, cudaEventDestroy)
NEVER_CALLED(cudaError_t, cudaGraphExecDestroy)
NEVER_CALLED(cudaError_t, cudaGraphDestroy)
NEVER_CALLED(const char *, cudaGetErrorString)
NEVER_CALLED(cublasStatus_t, cublasCreate)
NEVER_CALLED(cublasStatus_t, cublasSetMathMode)
NEVER_CALLED(cublasStatus_t, cublasSetStream)
NEVER_CALLED(cublasStatus_t, cublasSetWorkspace)
