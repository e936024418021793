# ROCmFPx on one GPU: exact values, numerics, speed. In the kit of ../two-gpus (scripts/pack.sh), after
# call0.sh has built the stack with this topic into $W/tip (tip.patch holds all steps):
#     bash run.sh [SECONDS]
# Leaves exact.txt, numerics.txt and perf-*.sql in $OUT. Ends by SECONDS (580).
here=$(cd $(dirname $0) && pwd)
. /tmp/k/wait.sh
wait_for tip $(( $(left ${1:-580}) - 120 )) || exit 1
B=$W/keep/tip; S=$W/tip
FP4='q4_0_rocmfp4|q4_0_rocmfp4_fast'; ALL="$FP4|q6_0_rocmfpx|q8_0_rocmfpx|q3_0_rocmfpx|q2_0_rocmfpx"
KHR=GGML_VK_DISABLE_COOPMAT2=1; SCALAR="$KHR GGML_VK_DISABLE_COOPMAT=1"; FLOAT=GGML_VK_DISABLE_MMVQ=1

# Each byte pattern against the C decoder. Only the float paths are exact: q8_1 rounds the activations.
g++ -O1 -std=c++17 -I$S/ggml/include $here/exact.cpp -o $W/exact -L$B -lggml -lggml-base -Wl,-rpath,$B
for path in A=1 $KHR "$SCALAR"; do echo "== $path"; env $FLOAT $path $W/exact; done > $OUT/exact.txt 2>&1
tail -n 1 $OUT/exact.txt

for path in A=1 $FLOAT $KHR "$SCALAR"; do for op in MUL_MAT MUL_MAT_ID GET_ROWS; do
  t=type_a; [ $op = GET_ROWS ] && t=type
  echo "== $path $op"
  env $path timeout 150 $B/test-backend-ops test -b Vulkan0 -o $op -p "$t=($ALL)," 2>&1 | grep -E 'FAIL|tests passed|matrix cores'
done; done > $OUT/numerics.txt
grep -E '==|passed' $OUT/numerics.txt

# Each round in another order; pairs of the same round are compared (../evaluate.py says how the others were).
CASES="type_a=($ALL|q4_0|iq4_nl|mxfp4|nvfp4|q8_0|q6_K|q3_K|q2_K),type_b=f32,m=4096,n=(1|2|3|4|5|8|512),k=14336,"
for round in $(seq 8); do for path in $(shuf -e A=1 $FLOAT); do
  [ $(left ${1:-580}) -gt 45 ] || { el "no time for round $round"; break 2; }
  env $path timeout 90 $B/test-backend-ops perf -b Vulkan0 -o MUL_MAT -p "$CASES" --output sql > $OUT/perf-$round-$path.sql
done; done
nvidia-smi > $OUT/machine.txt; el done
