# The ROCmFPx types in ggml-cuda on one GPU: exact rows, numerics, speed. In the kit of ../two-gpus, after
# call0.sh has unpacked the stack with this topic into $W/tip:
#     bash cuda.sh build &          nvcc, without FlashAttention; goes on after the call when started with setsid
#     bash cuda.sh [SECONDS]        waits for it, leaves cuda-*.txt and cuda-perf-*.sql in $OUT, ends by SECONDS (580)
here=$(cd $(dirname $0) && pwd)
. /tmp/k/wait.sh
S=$W/tip; B=$W/cuda
if [ "$1" = build ]; then
  mkdir -p $W/done
  cmake -S $S -B $B -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=${ARCH:-90} \
    -DGGML_CUDA_FA=OFF -DGGML_CUDA_NCCL=OFF -DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_CURL=OFF > $B.conf.log 2>&1 ||
    { tail -20 $B.conf.log; exit 1; }

  ninja -C $B -j ${JOBS:-16} test-backend-ops > $B.build.log 2>&1 || { grep -m5 -E 'error|FAILED' $B.build.log; exit 1; }
  touch $W/done/cuda; el built; exit
fi

wait_for cuda $(( $(left ${1:-580}) - 120 )) || exit 1
export LD_LIBRARY_PATH=$B/bin
OURS='q4_0_rocmfp4|q4_0_rocmfp4_fast|q6_0_rocmfpx|q8_0_rocmfpx|q3_0_rocmfpx|q2_0_rocmfpx'
THEIRS='q4_0|mxfp4|nvfp4|q6_K|q8_0|q3_K|q2_K'

# Rows against the C decoder, each scale byte. Mat-vec and matmul round the activations, so these are not exact.
g++ -O1 -std=c++17 -I$S/ggml/include $here/exact.cpp -o $W/exact-cuda -L$B/bin -lggml -lggml-base
$W/exact-cuda 8 CUDA get_rows > $OUT/cuda-exact.txt 2>&1; tail -n 1 $OUT/cuda-exact.txt

for op in MUL_MAT MUL_MAT_ID GET_ROWS; do
  t=type_a; [ $op = GET_ROWS ] && t=type
  echo "== $op"
  timeout 150 $B/bin/test-backend-ops test -b CUDA0 -o $op -p "$t=($OURS)," 2>&1 | grep -E 'FAIL|not supported|tests passed'
done > $OUT/cuda-numerics.txt
grep -E '==|passed' $OUT/cuda-numerics.txt

# Quads A B B A or B A A B of processes, A our types and B their neighbours. n 1..8 is mmvq, above mmq (dual, FAST, Q6)
# or the dequantised matrix (Q8, Q3, Q2); pairs are compared within a quad, as ../evaluate.py does.
perf() { # ARM FILE
  types=$OURS; [ $1 = B ] && types=$THEIRS
  timeout 90 $B/bin/test-backend-ops perf -b CUDA0 -o MUL_MAT \
    -p "type_a=($types),type_b=f32,m=4096,n=(1|2|4|8|16|64|512),k=14336," --output sql > $2
}
for quad in $(seq 4); do
  [ $(left ${1:-580}) -gt 120 ] || { el "no time for quad $quad"; break; }
  place=0
  for arm in $(shuf -n 1 -e 'A B B A' 'B A A B'); do
    place=$((place + 1)); perf $arm $OUT/cuda-perf-$quad-$place-$arm.sql
  done
done
nvidia-smi > $OUT/cuda-machine.txt; nvcc --version >> $OUT/cuda-machine.txt; el done
