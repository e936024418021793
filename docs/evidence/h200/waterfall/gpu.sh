# Sourced by master.sh: what each GPU and the lanes of the planted runs do. The cores: no two lanes, and no lane and a GPU's process, share a core
# if the siblings are (2i, 2i+1), and none if they are (i, i+16); the two GPUs' processes may.
CORES0=0-5 SPEC=0-3 LANES=6,7,8,9,10,11,12,13,14,15
until [ -z "$(jobs -r)" ] || [ $(( $(date +%s) - START )) -gt 520 ]; do sleep 1; done
taskset -cp 4-5 $$ > /dev/null; cp $W/*.conf.log $O/build/ 2> /dev/null
[ -e $W/keep/head/ready ] && cp -a $W/keep/head $W/keep/copy
el "all built: $(cd $W/keep && ls -d */ready | tr '\n' ' ') planted: $(ls $W/planted | tr '\n' ' ')"
(cd $W && sha256sum keep/*/libggml-vulkan.so.0 keep/*/libggml-base.so.0 keep/*/libllama.so.0 keep/*/llama-{bench,server} planted/*/lib*.so.0 planted/*/llama-bench /tmp/lab-planted/models/*.gguf 2> /dev/null) > $O/sha256.txt
within() { timeout -k 5 $(( $(left) + 6 > 1 ? $(left) + 6 : 1 )) "$@"; }
lane0() {
  within python3 $KIT/measure3.py $W/keep $M $O $END 0 moe-512:8,dense-27b:8,moe-128:6 stop; el "prefill"
  speculate; el "speculation"
  [ $(left) -lt 45 ] || within python3 $KIT/measure3.py $W/keep $M $O $END 0 moe-128,dense-27b,moe-512
}
speculate() {
  [ -e $W/keep/tip/ready ] && [ -e $BIG/dense-27b.gguf ] && [ -e $BIG/dflash2-27b.gguf ] || { el "no server or model of 27B"; return; }
  # validate.room.clean takes GGML_* away: the server gets its GPU from a script beside it (GPU 1 is then Vulkan0, the only one)
  printf '#!/bin/sh\nexport GGML_VK_VISIBLE_DEVICES=0\nexec %s/keep/tip/llama-server "$@"\n' $W > $W/keep/tip/llama-server-gpu1; chmod +x $W/keep/tip/llama-server-gpu1
  # a shader cache, as users have (of root it is off): the second start compiles nothing
  export CACHE=/tmp/nvcache; mkdir -p $CACHE; export __GL_SHADER_DISK_CACHE=1 __GL_SHADER_DISK_CACHE_PATH=$CACHE __GL_SHADER_DISK_CACHE_SKIP_CLEANUP=1
  (sleep 20; for i in 1 2 3 4 5 6; do nvidia-smi --query-gpu=timestamp,index,memory.used,utilization.gpu,clocks.sm --format=csv,noheader; sleep 3; done) > $O/zero-gpus.txt 2>&1 &
  cd $KIT/repo; T=$(( $(left) - 15 < 520 ? $(left) - 15 : 520 ))
  within python3 $KIT/zero.py $KIT/repo --device Vulkan0 --target $BIG/dense-27b.gguf --drafter $BIG/dflash2-27b.gguf --seconds $T $W/keep/tip/llama-server-gpu1 - $SPEC 20 $O/gpu27-zero.jsonl > $O/zero.log 2>&1
  el "27B p=0: $(cut -c -120 $O/gpu27-zero.jsonl 2> /dev/null), cache $(du -sk $CACHE | cut -f1) KiB"
  [ $(left) -lt 60 ] || within taskset -c $SPEC python3 docs/evidence/speculation/gpu.py $W/keep/tip/llama-server-gpu1 $BIG/dense-27b.gguf $BIG/dflash2-27b.gguf Vulkan0 $(( $(left) - 12 )) $O/gpu27.jsonl 3,4,5,6,7 7,15 > $O/gpu27.log 2>&1
  el "27B p=.95"; cd $KIT; unset __GL_SHADER_DISK_CACHE __GL_SHADER_DISK_CACHE_PATH __GL_SHADER_DISK_CACHE_SKIP_CLEANUP
}
planted() {
  [ -e $W/planted/ready ] || { el "no builds for the planted runs"; return; }
  within python3 $KIT/planted.py $KIT/repo /tmp/lab-planted $W/planted/base $W/planted/slow-10 $W/planted/slow-20 $LANES $END $O/planted.jsonl > $O/planted.log 2>&1
  el "planted: $(wc -l < $O/planted.jsonl) runs"
}
planted & L2=$!
(taskset -cp $CORES0 $BASHPID; lane0) > $O/lane0.log 2>&1 & L0=$!
wait $L0 $L2; el all done; touch /tmp/o/all-done
