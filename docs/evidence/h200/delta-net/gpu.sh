# Sourced by master.sh: what each GPU does, nothing else runs beside it.
export SHIM=$W/quantize_shim.so
ready() { until [ -e $W/keep/$1/ready ]; do [ -e $W/ended.$1 ] && { el "$1 did not build"; return 1; }; sleep 1; done; }
P='head_size=128,n_seq_tokens=(1|64|512|1024|2048),.*kda=0'
gperf() { $W/keep/$1/test-backend-ops perf -b Vulkan0 -o GATED_DELTA_NET -p "$P" 2>/dev/null | sed 's/\x1b\[[0-9;]*m//g' | awk -v s=$1 -v r=$2 '/GATED_DELTA_NET\(/ {match($0,/head_count=[0-9]+/); h=substr($0,RSTART+11,RLENGTH-11); match($0,/n_seq_tokens=[0-9]+/); n=substr($0,RSTART+13,RLENGTH-13); match($0,/[0-9.]+ us\/run/); print r, s, "heads", h, "tokens", n, substr($0,RSTART,RLENGTH)}'; }
num() { for op in "${@:2}"; do echo "$1 $GGML_VK_GDN $op $($W/keep/$1/test-backend-ops test -b Vulkan0 -o $op 2>/dev/null | sed 's/\x1b\[[0-9;]*m//g' | grep -E 'tests passed|FAIL' | head -5 | tr '\n' ' ')"; done; }
fpx() { ready $1 || return; ROUNDS=1 KINDS="$2" python3 $KIT/fpx.py $W/keep/$1 $O $(( END - 10 )) Vulkan0 $3 "$4" ${@:5} >> $O/fpx.log 2>&1; }
FP="q4_0_rocmfp4 q4_0_rocmfp4_fast q6_0_rocmfpx q8_0_rocmfpx q3_0_rocmfpx q2_0_rocmfpx"; KHR=GGML_VK_DISABLE_COOPMAT2=1
types() { for k in $FP; do for op in MUL_MAT MUL_MAT_ID GET_ROWS; do echo "$1 $* $k $op $(env ${2:-X=1} $W/keep/$1/test-backend-ops test -b Vulkan0 -o $op -p "type(_a)?=$k," 2>/dev/null | sed 's/\x1b\[[0-9;]*m//g' | grep -E 'tests passed|FAIL' | head -4 | tr '\n' ' ')"; done; done; }
lane0() {
  export GGML_VK_VISIBLE_DEVICES=0
  for r in 1 2 3; do for n in told tip v0s; do gperf $n $r; done; done >> $O/gdn.txt 2>&1; for n in tip v0s; do num $n GATED_DELTA_NET; done >> $O/numerics.txt; el "gdn"
  bash $KIT/gdn.sh $W/keep/s 1 >> $O/gdn.txt 2>&1; el "gdn sweep"; unset GGML_VK_VISIBLE_DEVICES
  python3 $KIT/measure.py $W/keep $M $O $END 0 moe-512,dense-27b
}
lane1() {
  export GGML_VK_VISIBLE_DEVICES=1
  types tip $KHR >> $O/numerics.txt; types tip >> $O/numerics.txt; el "types"
  for r in 1 2 3 4 5 6; do
    [ $(( END - $(date +%s) )) -lt 230 ] && break
    for arm in tip told told tip; do fpx $arm "$FP" $arm '1|4|8'; done; for arm in told tip tip told; do fpx $arm "q4_0_rocmfp4 q4_0_rocmfp4_fast" $arm 512; fpx $arm "q4_0_rocmfp4 q4_0_rocmfp4_fast" $arm-khr 512 $KHR; done; fpx tip "mxfp4" tip-khr 512 $KHR;  fpx tip "mxfp4 q6_K q8_0 q3_K q2_K" tip '1|4|8'; el "fpx round $r"
  done
  unset GGML_VK_VISIBLE_DEVICES; python3 $KIT/measure.py $W/keep $M $O $END 1 dense-27b,moe-512
}
for n in tip told head nn nng s v0s; do ready $n; done; cp -a $W/keep/head $W/keep/copy; el "all built"
(taskset -cp 0-7 $BASHPID; lane0) > $O/lane0.log 2>&1 & L0=$!
(taskset -cp 16-23 $BASHPID; lane1) > $O/lane1.log 2>&1 & L1=$!
wait $L0 $L1; el all done; touch /tmp/o/all-done
