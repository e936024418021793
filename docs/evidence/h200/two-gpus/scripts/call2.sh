# Third call (and any later one): call2.sh [SECONDS]. Planted slow-downs on cores 0 to 19, once; speed on both GPUs.
mkdir -p /tmp/k; cp -r $(dirname $0)/. /tmp/k/
. /tmp/k/wait.sh
S=${1:-580}
wait_for all 60
if [ -e $W/done/cpu ] && [ ! -e $W/done/planted ]; then
  touch $W/done/planted
  (cd /tmp/k/repo && PYTHONPATH=/tmp/site:. taskset -c 0-19 python3 docs/evidence/planted/lanes.py \
    /tmp/k/lab $W/keep/base $W/keep/slow-10 $W/keep/slow-20 20 /tmp/o/planted.jsonl > /tmp/o/planted.log 2>&1) &
fi
taskset -c 20-25 python3 $KIT/measure.py $W/keep $W/quantize_shim.so /tmp/o $(left $S) id_float,id,mmvq,pad,float,history 0 > /tmp/o/measure-0.log 2>&1 &
taskset -c 26-31 python3 $KIT/measure.py $W/keep $W/quantize_shim.so /tmp/o $(left $S) id_float,id,history,float,pad,mmvq 1 >> /tmp/o/measure-1.log 2>&1 &
while [ $(left $S) -gt 3 ] && [ -n "$(jobs -r)" ]; do sleep 5; save; done
save; tail -n 25 /tmp/o/measure-*.log; tail -n 6 /tmp/o/planted.log; wc -l /tmp/o/*.jsonl; el done
