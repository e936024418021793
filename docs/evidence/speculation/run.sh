# run.sh SECONDS (580): one call on the machine with the GPU. The kit (this folder) holds bin.tar.xz (llama-server of
# the stack's tip, portable, with Vulkan), repo.tar.xz, whl/, debs/ (loaders). Makes the models, then runs the
# matrix in lanes on all cores but four, and the 27B curve on GPU 0 at the same time. Results in $OUT.
T0=$(date +%s); S=${1:-580}; K=/tmp/s; export PYTHONUNBUFFERED=1
left() { echo $(( S - ($(date +%s) - T0) )); }
el() { echo "[$(( $(date +%s) - T0 )) s] $*"; }
mkdir -p $K $K/bin $K/repo $K/o; cp -r $(dirname $0)/. $K/
for f in $K/debs/*.deb; do dpkg -x $f /; done; ldconfig
export VK_DRIVER_FILES=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
export __EGL_VENDOR_LIBRARY_FILENAMES=/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json
tar xJf $K/bin.tar.xz -C $K/bin; tar xJf $K/repo.tar.xz -C $K/repo
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /tmp/site-s $K/whl/*.whl
export PYTHONPATH=/tmp/site-s:$K/repo LD_LIBRARY_PATH=$K/bin:$LD_LIBRARY_PATH LAB_DIR=$K/lab
mkdir -p $K/lab; E=$K/repo/docs/evidence/speculation
{ nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem --format=csv; uname -r; lscpu | grep -E 'Model name|^CPU\(s\)|L3|NUMA'; df -h /dev/shm /tmp; free -g; $K/bin/llama-server --version; $K/bin/llama-server --list-devices; } > $K/o/machine.txt 2>&1
cat $K/o/machine.txt; el start
cd $K/repo && python3 $E/models.py $K/deep || exit 1
el "small models"
BIG=/dev/shm; [ $(df --output=avail -BG /dev/shm | tail -1 | tr -dc 0-9) -ge 20 ] || BIG=/tmp
python3 -m validate.shape_models write dense-27b $BIG/dense-27b.gguf --endless --threads $(nproc) &&
  for d in dflash2-27b dflash-27b; do python3 -m validate.shape_models write $d $BIG/$d.gguf --for $BIG/dense-27b.gguf --endless --threads $(nproc); done
el "27B models"; ls -la $BIG/*.gguf
N=$(nproc); L=$(( N - 4 ))
(taskset -c $L-$(( N - 1 )) env GGML_VK_VISIBLE_DEVICES=0 python3 $E/gpu.py $K/bin/llama-server $BIG/dense-27b.gguf $BIG/dflash2-27b.gguf,$BIG/dflash-27b.gguf Vulkan0 $(( $(left) - 15 )) $K/o/gpu.jsonl > $K/o/gpu.log 2>&1) &
[ "$LANES" = 0 ] || (taskset -c 0-$(( L - 1 )) python3 $E/lanes.py $K/bin/llama-server $K/deep 0-$(( L - 1 )) $(( $(left) - 25 )) $K/o/lanes.jsonl > $K/o/lanes.log 2>&1) &
save() { cp -f $K/o/*.jsonl $K/o/*.txt $K/o/*.log $OUT/ 2>/dev/null; }
while [ $(left) -gt 4 ] && [ -n "$(jobs -r)" ]; do sleep 3; save; done
kill $(jobs -p) 2>/dev/null; sleep 1; kill -9 $(pgrep -f $K/bin/llama-server) 2>/dev/null
tar cf - -C $K lab/logs o 2>/dev/null | gzip > $OUT/logs.tar.gz; save
cat $K/o/gpu.log | tail -50; cat $K/o/lanes.log | tail -80; el done
