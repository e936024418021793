# MoE and dense prefill on the KHR path with intervals: run2.sh [SECONDS], one call of at most ten minutes; may be repeated.
# The kit of ../two-gpus (pack.sh) with this folder as KIT/moe and the shape_models of the repository in KIT/repo.
#   call 1  builds (started by ../two-gpus/scripts/call0.sh and build2.sh), models, numerics, then quads on both GPUs
#   call 2  the same again: goes on from the quads that are there
#   call 3  confirm2.sh: candidate a and b against b11549 by `python -m validate.prefill`, the project's own judge
mkdir -p /tmp/k; [ -e $(dirname $0)/build2.sh ] && mkdir -p /tmp/k/moe && cp -r $(dirname $0)/. /tmp/k/moe/
. /tmp/k/wait.sh
S=${1:-570}; KEEP=/tmp/b/keep; M=/tmp/m; mkdir -p $M
[ -e $W/done/b ] || setsid bash /tmp/k/moe/build2.sh >> /tmp/k/build2.log 2>&1 < /dev/null &
gen() { [ -s $M/$2.gguf ] || (cd $KIT/repo && PYTHONPATH=/tmp/site:. python3 -m validate.shape_models write $1 $M/$2.gguf --layers $3) 2>&1 | tail -1; }
gen moe-128 moe-128 8 & gen moe-512 moe-512 4 & gen dense-27b dense 8 & wait_for b $(( $(left $S) - 120 )); wait_for old 60
for job in $(jobs -p); do [ "$(ps -o args= -p $job | grep -c build2)" = 1 ] || wait $job; done
ls -l $M; cat /tmp/k/build2.log; el built
if [ ! -e $W/done/numerics2 ]; then
  touch $W/done/numerics2
  for g in 0 1; do taskset -c $(( 16 * g ))-$(( 16 * g + 15 )) python3 $KIT/moe/numerics2.py $KEEP /tmp/o/moe-numerics-$g.jsonl 100 $g 2 > /tmp/o/moe-numerics-$g.log 2>&1 & done
  wait $(jobs -p | tail -2)
  cat /tmp/o/moe-numerics-*.log
fi
taskset -c 0-7 python3 $KIT/moe/measure2.py $KEEP $M /tmp/o $(left $S) 0 moe-128,dense,moe-512 > /tmp/o/moe2-0.log 2>&1 &
taskset -c 8-15 python3 $KIT/moe/measure2.py $KEEP $M /tmp/o $(left $S) 1 moe-512,dense,moe-128 > /tmp/o/moe2-1.log 2>&1 &
while [ $(left $S) -gt 4 ] && pgrep -f moe/measure2.py > /dev/null; do sleep 3; cp -f /tmp/o/moe2-?.jsonl $OUT/ 2>/dev/null; cat /tmp/o/moe-numerics-?.jsonl > $OUT/moe-numerics.jsonl 2>/dev/null; done
cp -f /tmp/o/moe2-?.jsonl $OUT/; nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks_event_reasons.active --format=csv > $OUT/moe2-machine.txt
tail -n 12 /tmp/o/moe2-?.log; el done
