# Third call: MoE prefill and, beside it, the 27B curve. moe.sh SECONDS
. /tmp/k/wait.sh
S=${1:-400}; KEEP=/tmp/b/keep; M=/tmp/m; mkdir -p $M
gen() { (cd $KIT/moe && PYTHONPATH=$KIT/moe/py python3 -m validate.shape_models write "$@") 2>&1 | tail -2; }
gen moe-128 $M/moe-128.gguf --layers 8 & gen moe-512 $M/moe-512.gguf --layers 4 & gen dense-27b $M/dense.gguf --layers 8 & wait
el models; ls -l $M
wait_for m3 100; cat /tmp/build2.log
numerics() { for a in m3 head; do for e in GGML_VK_DISABLE_COOPMAT2 NOTHING; do echo "$a $e $(env $e=1 GGML_VK_VISIBLE_DEVICES=0 timeout 60 $KEEP/$a/test-backend-ops test -b Vulkan0 -o MUL_MAT_ID 2>&1 | grep -E 'tests passed|FAIL' | tail -5)"; done; done; }
if [ -x $KIT/spec/curve.sh ]; then bash $KIT/spec/curve.sh $(left $S) > /tmp/o/curve.log 2>&1 & fi
numerics > /tmp/o/moe-numerics.txt; cat /tmp/o/moe-numerics.txt
taskset -c 0-7 python3 $KIT/moe/moe.py $KEEP $M /tmp/o $(left $S) 0 moe-128-khr,moe-512-khr,moe-128-cm2,moe-512-cm2,history-moe-128-khr,history-moe-512-khr,history-dense-khr > /tmp/o/moe.log 2>&1 &
while [ $(left $S) -gt 3 ] && [ -n "$(jobs -r)" ]; do sleep 3; save; done
save; tail -n 12 /tmp/o/moe.log /tmp/o/curve.log; el done
