"""Are ggml-cuda's dot products of the ROCmFPx types right?

    python rocmfpx_cuda_mat_vec.py --bin STEPBIN --source TREE --work DIR

The functions of vecdotq.cuh that mmvq.cu names for each type, compiled as plain C++
(rocmfpx_cuda.py): equal to integers where floats are exact, else within rounding of double
precision and of the CPU. What is around them (launch, sums over a warp's threads) is not run.
Exit status: 0 holds, 1 does not hold, 3 no C++ compiler, 4 the tree does not compile this way.
"""

import sys

from rocmfpx_cuda import MAT_VEC, run_check

if __name__ == "__main__":
    sys.exit(run_check(MAT_VEC, __doc__))
