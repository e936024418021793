"""Does ggml-cuda decode the ROCmFPx types as the CPU does, bit for bit?

    python rocmfpx_cuda_dequantise.py --bin STEPBIN --source TREE --work DIR

convert.cu and getrows.cu of the step, compiled as plain C++ (rocmfpx_cuda.py): every code at every
place with every scale byte, to f32, f16, bf16 and as rows, and the golden vectors.
Exit status: 0 holds, 1 does not hold, 3 no C++ compiler, 4 the tree does not compile this way.
"""

import sys

from rocmfpx_cuda import DEQUANTISE, run_check

if __name__ == "__main__":
    sys.exit(run_check(DEQUANTISE, __doc__))
