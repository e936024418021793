# Sourced by master.sh: what each GPU and the other cores do, in order.
export SHIM=$W/quantize_shim.so
ready() { until [ -e $W/keep/$1/ready ]; do [ -e $W/ended.$1 ] && { el "$1 did not build"; return 1; }; sleep 1; done; }
FP='q4_0_rocmfp4|q4_0_rocmfp4_fast|q6_0_rocmfpx|q8_0_rocmfpx|q3_0_rocmfpx|q2_0_rocmfpx'
KHR=GGML_VK_DISABLE_COOPMAT2=1; SCALAR="$KHR GGML_VK_DISABLE_COOPMAT=1"; FLOAT=GGML_VK_DISABLE_MMVQ=1
lane0() {
  ready tip || return; B=$W/keep/tip
  g++ -O1 -std=c++17 -I$W/tip/ggml/include $KIT/exact.cpp -o $W/exact -L$B -lggml -lggml-base -Wl,-rpath,$B
  for path in A=1 $KHR "$SCALAR"; do echo "== $path"; env $FLOAT $path timeout 60 $W/exact; done > $O/fpx-exact.txt 2>&1; el "exact: $(tail -n 1 $O/fpx-exact.txt)"
  for path in A=1 $FLOAT $KHR "$SCALAR"; do for op in MUL_MAT MUL_MAT_ID GET_ROWS; do
    t=type_a; [ $op = GET_ROWS ] && t=type
    echo "== $path $op"; env GGML_VK_VISIBLE_DEVICES=0 $path timeout 60 $B/test-backend-ops test -b Vulkan0 -o $op -p "$t=($FP)," -j 4 2>&1 | grep -E 'FAIL|tests passed|matrix cores'
  done; done > $O/fpx-numerics.txt; el "fpx numerics: $(grep -c passed $O/fpx-numerics.txt) runs, $(grep -c FAIL $O/fpx-numerics.txt) FAIL"
  until [ -e $W/final ]; do sleep 1; done
  (cd $KIT && GGML_VK_VISIBLE_DEVICES=0 python3 $KIT/numerics2.py $W/keep $O/moe-numerics.jsonl 50 0 1 > $O/moe-numerics.log 2>&1); el "moe numerics: $(wc -l < $O/moe-numerics.jsonl)"
  export GGML_VK_VISIBLE_DEVICES=0
  python3 $KIT/fpx.py $B $O $(( $(date +%s) + 100 )) Vulkan0 vulkan '1|2|4|8|512'
  python3 $KIT/fpx.py $B $O $(( $(date +%s) + 50 )) Vulkan0 vulkan-float '1|4|8' $FLOAT
  el "fpx vulkan done"
  unset GGML_VK_VISIBLE_DEVICES
  python3 $KIT/id.py $W/keep $SHIM $O 190 id,id_float 0; el "id done"
  python3 $KIT/measure2.py $W/keep $M $O $END 0 moe-128,moe-512,dense
}
lane1() {
  ready cuda && LD_LIBRARY_PATH=$W/keep/cuda:$LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES=1 python3 $KIT/fpx.py $W/keep/cuda $O $(( $(date +%s) + 100 )) CUDA0 cuda '1|4|8|512'; el "fpx cuda done"
  until [ -e $BIG/ready ]; do sleep 1; done
  cd $KIT/repo
  E=docs/evidence/speculation; export GGML_VK_VISIBLE_DEVICES=1
  ready tip; python3 $E/gpu.py $W/keep/tip/llama-server $BIG/dense-27b.gguf $BIG/dflash2-27b.gguf Vulkan0 300 $O/gpu27.jsonl > $O/gpu27.log 2>&1; el "27B curve"
  ready undeferred; python3 $E/length_zero.py --device Vulkan0 --target $BIG/dense-27b.gguf --drafter $BIG/dflash2-27b.gguf --seconds 130 $W/keep/tip/llama-server,$W/keep/undeferred/llama-server - 2-3 20 $O/gpu27-zero.jsonl > $O/gpu27-zero.log 2>&1; el "27B p=0"
  unset GGML_VK_VISIBLE_DEVICES
  until [ -e $W/final ]; do sleep 1; done
  python3 $KIT/measure2.py $W/keep $M $O $END 1 moe-512,moe-128,dense
}
(taskset -cp 0-1 $BASHPID; lane0) > $O/lane0.log 2>&1 & L0=$!
(taskset -cp 2-3 $BASHPID; lane1) > $O/lane1.log 2>&1 & L1=$!
contests() {
  cd $KIT/repo; taskset -c 4-31 python3 docs/evidence/speculation/models.py /tmp/deep | tail -2
  for n in cpu cuda b10566 tip undeferred; do ready $n; done; until [ -e $W/final ]; do sleep 1; done; el "contests start"
  LD_LIBRARY_PATH=$W/keep/cpu python3 docs/evidence/speculation/lanes.py $W/keep/cpu/llama-server /tmp/deep 4-31 $(( END - $(date +%s) - 20 )) $O/lanes.jsonl 8,14,20
}
contests > $O/contests.log 2>&1 & L2=$!
wait $L0 $L1 $L2; el all done; touch /tmp/o/all-done
