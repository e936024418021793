# Second call: the model; then, as soon as they are built, numerics on GPU 0 and speed on GPU 1. Ends by SECONDS (580).
mkdir -p /tmp/k; cp -r $(dirname $0)/. /tmp/k/
. /tmp/k/wait.sh
[ -e $W/done/all ] || setsid bash /tmp/k/build.sh >> /tmp/k/build.log 2>&1 < /dev/null &
mkdir -p /tmp/k/lab/models; cat /tmp/k/m.00 /tmp/k/m.01 > /tmp/k/lab/models/SmolLM2-135M-Instruct.Q4_1.gguf
sha256sum /tmp/k/lab/models/*.gguf
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /tmp/site /tmp/k/whl/*.whl
{
  nvidia-smi --query-gpu=name,driver_version,vbios_version,clocks.max.sm,clocks.max.mem,persistence_mode --format=csv
  uname -r; lscpu | grep -E 'Model name|^CPU\(s\)|L3|NUMA'; /tmp/b/glslc.sh --version; gcc --version | head -1; ldd --version | head -1; cmake --version | head -1
} > /tmp/o/machine.txt 2>&1
(cd /tmp/k/repo && PYTHONPATH=/tmp/site:. python3 -c 'from validate import bench_speed; print("imports")')
wait_for all $(( $(left ${1:-580}) - 60 )); cat /tmp/k/build.log
(cd $W/keep && sha256sum */libggml-*.so.0 */libllama.so.0 */test-backend-ops */llama-bench 2>/dev/null) > /tmp/o/sha256.txt
cp $W/*.log /tmp/o/
el speed and numerics
taskset -c 24-31 python3 $KIT/measure.py $W/keep $W/quantize_shim.so /tmp/o $(left ${1:-580}) id_float,id,history,float,pad,mmvq 1 > /tmp/o/measure-1.log 2>&1 &
for i in 0 1 2; do
  GGML_VK_VISIBLE_DEVICES=0 taskset -c $(( 8 * i ))-$(( 8 * i + 7 )) python3 $KIT/numerics.py $W/keep /tmp/o/numerics-$i.jsonl $(( $(left ${1:-580}) - 5 )) $i 3 > /tmp/o/numerics-$i.log 2>&1 &
done
while [ $(left ${1:-580}) -gt 3 ] && [ -n "$(jobs -r)" ]; do sleep 5; save; done
save; cat /tmp/o/numerics-*.log; tail -n 30 /tmp/o/measure-1.log; el done
