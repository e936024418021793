# Sourced by master.sh: what each GPU and the other cores do, in order.
export SHIM=$W/quantize_shim.so
ready() { until [ -e $W/keep/$1/ready ]; do [ -e $W/ended.$1 ] && { el "$1 did not build"; return 1; }; sleep 1; done; }
export CACHE=/tmp/nvcache; mkdir -p $CACHE
lane0() {
  ready tnd; ready n64; (python3 $KIT/norms.py $W/keep $M $O 0) > $O/norms.log 2>&1; el "norms"
  until [ -e $W/final ]; do sleep 1; done
  python3 $KIT/measure3.py $W/keep $M $O $(( $(date +%s) + 620 )) 0 moe-512,moe-128,dense-27b; el "prefill, first part"
  python3 $KIT/id.py $W/keep $SHIM $O 130 id_float 0; el "id done"
  python3 $KIT/measure3.py $W/keep $M $O $END 0 moe-512,moe-128,dense-27b
}
lane1() {
  until [ -e $BIG/ready ]; do sleep 1; done
  ready tip; cd $KIT/repo; E=docs/evidence/speculation; export GGML_VK_VISIBLE_DEVICES=1
  # a shader cache, as users have (of root it is off): the second start compiles nothing
  export __GL_SHADER_DISK_CACHE=1 __GL_SHADER_DISK_CACHE_PATH=$CACHE __GL_SHADER_DISK_CACHE_SKIP_CLEANUP=1
  python3 $E/gpu.py $W/keep/tip/llama-server $BIG/dense-27b.gguf $BIG/dflash2-27b.gguf Vulkan0 400 $O/gpu27.jsonl 2,3,4,5,6,7,12 7,15 > $O/gpu27.log 2>&1; el "27B curve, cache: $(du -sk $CACHE | cut -f1) KiB"
  ready undeferred; python3 $E/length_zero.py --device Vulkan0 --target $BIG/dense-27b.gguf --drafter $BIG/dflash2-27b.gguf --seconds 300 $W/keep/tip/llama-server,$W/keep/undeferred/llama-server - 2-3 20 $O/gpu27-zero.jsonl > $O/gpu27-zero.log 2>&1; el "27B p=0"
  unset __GL_SHADER_DISK_CACHE
  python3 $KIT/fpx.py $W/keep/tip $O $(( $(date +%s) + 150 )) Vulkan0 vulkan '1|4|8|512' > $O/fpx.log 2>&1; el "fpx vulkan"
  unset GGML_VK_VISIBLE_DEVICES
  python3 $KIT/measure3.py $W/keep $M $O $END 1 dense-27b,moe-128,moe-512
}
(taskset -cp 0-3 $BASHPID; lane0) > $O/lane0.log 2>&1 & L0=$!
(taskset -cp 4-7 $BASHPID; lane1) > $O/lane1.log 2>&1 & L1=$!
contests() {
  cd $KIT/repo; taskset -c 8-31 python3 docs/evidence/speculation/models.py /tmp/deep | tail -2
  ready cpu; ready tip; ready undeferred; until [ -e $W/final ]; do sleep 1; done; el "contests start"
  LD_LIBRARY_PATH=$W/keep/cpu python3 docs/evidence/speculation/lanes.py $W/keep/cpu/llama-server /tmp/deep 8,10,12,14,16,18,20,22,24,26,28,30 $(( END - $(date +%s) - 20 )) $O/lanes.jsonl 8,14,20 'simple p=,simple mtp,mtp,dflash p=,dflash mtp'
}
contests > $O/contests.log 2>&1 & L2=$!
wait $L0 $L1 $L2; el all done; touch /tmp/o/all-done
