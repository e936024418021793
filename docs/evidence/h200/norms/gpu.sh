# Sourced by master.sh: what each GPU does, nothing else runs beside it.
ready() { until [ -e $W/keep/$1/ready ]; do sleep 1; done; }
for n in head t nn; do ready $n; done; el "all built"
(taskset -cp 0-7 $BASHPID; python3 $KIT/norms.py $W/keep $M $O 0 > $O/norms.log 2>&1; el norms; python3 $KIT/measure.py $W/keep $M $O $END 0 moe-512) > $O/lane0.log 2>&1 & L0=$!
(taskset -cp 16-23 $BASHPID; python3 $KIT/measure.py $W/keep $M $O $(( END - 150 )) 1 dense-27b,moe-128; python3 $KIT/measure.py $W/keep $M $O $END 1 moe-128,dense-27b) > $O/lane1.log 2>&1 & L1=$!
wait $L0 $L1; el all done; touch /tmp/o/all-done
