"""Are ggml-cuda's matmul tiles of the ROCmFPx types right?

    python rocmfpx_cuda_matmul.py --bin STEPBIN --source TREE --work DIR

load_tiles, vec_dot and write_back of mmq.cuh, compiled as plain C++ (rocmfpx_cuda.py): tiles for
dp4a and for matrix instructions value by value, dot products of the former against integers.
Matrix instructions, barriers, stream-k and the launch are not run.
Exit status: 0 holds, 1 does not hold, 3 no C++ compiler, 4 the tree does not compile this way.
"""

import sys

from rocmfpx_cuda import MATMUL, run_check

if __name__ == "__main__":
    sys.exit(run_check(MATMUL, __doc__))
