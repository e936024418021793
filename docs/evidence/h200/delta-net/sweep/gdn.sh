#!/bin/bash
# bench.sh BIN [REPEATS]: as before; settings GGML_VK_GDN=T,W,L,CPL,G,PIPE,PRE,SHUFFLE[,MIN] (one number more than in variants/)
BIN=$1; N=${2:-2}
SETTINGS="off
16,4,4,1,1,0,0,0
16,4,4,1,1,0,0,1
16,4,8,1,1,0,0,1
16,8,4,1,1,0,0,1
16,8,8,1,1,0,0,1
16,2,4,1,1,0,0,1
16,4,4,1,1,1,0,1
16,4,4,1,1,0,1,1
32,4,4,1,1,0,0,1
16,4,8,2,1,0,0,1
16,4,8,2,1,1,0,1
16,4,16,2,1,0,0,1
16,4,4,1,2,0,0,1
16,4,8,2,2,0,0,1
16,4,8,1,2,0,0,1
16,4,8,2,4,0,0,1"
for round in $(seq $N); do
  for s in $SETTINGS; do
    v=$s; [ $s = off ] && v=
    GGML_VK_GDN=$v $BIN/test-backend-ops perf -b Vulkan0 -o GATED_DELTA_NET -p "head_size=128,n_seq_tokens=(1|64|512|1024|2048),.*kda=0" 2>/dev/null |
      sed 's/\x1b\[[0-9;]*m//g' | awk -v s=$s -v r=$round '/GATED_DELTA_NET\(/ {match($0,/head_count=[0-9]+/); h=substr($0,RSTART+11,RLENGTH-11); match($0,/n_seq_tokens=[0-9]+/); n=substr($0,RSTART+13,RLENGTH-13); match($0,/[0-9.]+ us\/run/); print r, s, "heads", h, "tokens", n, substr($0,RSTART,RLENGTH)}'
  done
done
