# master.sh SECONDS: the trees of one lease, then gpu.sh. Results in /tmp/o.
export KIT=/tmp/k WORK=/tmp/b W=/tmp/b PYTHONUNBUFFERED=1; S=$1; START=$(date +%s); END=$(( START + S )); O=/tmp/o; M=/dev/shm
mkdir -p $O $W/keep; cd $KIT
. $KIT/setup.sh; set +e
el() { echo "[$(( $(date +%s) - START )) s] $*"; }
export __EGL_VENDOR_LIBRARY_FILENAMES=/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json
{ nvidia-smi --query-gpu=name,driver_version,vbios_version,clocks.max.sm,clocks.max.mem,persistence_mode --format=csv; uname -r; lscpu | grep -E 'Model name|^CPU\(s\)|L3|NUMA|Thread'; $W/glslc.sh --version; gcc --version | head -1; ldd --version | head -1; cmake --version | head -1; } > $O/machine.txt 2>&1
tar xJf src.tar.xz -C $W; tar xJf spirv.tar.xz -C $W
gcc -O2 -shared -fPIC -DVALUES=65536 -o $W/quantize_shim.so $KIT/quantize_shim.c -ldl
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /tmp/site $KIT/whl/*.whl &
PIP=$!
printf '#!/bin/sh\nexec /usr/bin/env python3 -S -E -I %s/spirv_cache.py %s/spirv IDENTITY %s/glslc.sh "$@"\n' $KIT $W $W | sed s/IDENTITY/7a18cd32882b57eb5cc4356cc14cf8bbf4bb89fc32ab01889561ddf6924ee049/ > $W/glslc-cached.sh
chmod +x $W/glslc-*.sh
tree() { cp -a $W/$2 $W/$1; for p in "${@:3}"; do (cd $W/$1 && patch -f -p1 -s < $KIT/$p) || echo "$p does not apply to $1"; done; }
make() { nice -n $2 cmake --build $W/$1/build -j $3 --target $4 > $W/$1.build.log 2>&1 || { grep -m5 -E 'error|FAILED' $W/$1.build.log; tail -3 $W/$1.build.log; touch $W/ended.$1; return 1; }; el "$1 built"; }
full() { # NAME TARGETS
  GLSLC=$W/glslc-cached.sh conf $1 > /dev/null; make $1 0 16 "$2" && mkdir -p $W/keep/$1 && cp -a $W/$1/build/bin/. $W/keep/$1/ && touch $W/keep/$1/ready; }
host() { # NAME FROM: libggml-vulkan.so of NAME beside the programs of FROM
  GLSLC=$W/glslc-cached.sh conf $1 > /dev/null; make $1 3 12 ggml-vulkan || return; until [ -e $W/keep/$2/ready ]; do [ -e $W/ended.$2 ] && return; sleep 1; done
  mkdir -p $W/keep/$1; cp -a $W/keep/$2/. $W/keep/$1/; rm -f $W/keep/$1/ready $W/keep/$1/libggml-vulkan*; cp -a $W/$1/build/bin/libggml-vulkan* $W/keep/$1/; touch $W/keep/$1/ready; }
tree tip b11549 tip.patch; tree told b11549 told.patch; tree nn b11549 tile.patch nn.patch; tree nng nn gdn.patch; tree s b11549 s.patch; tree v0s b11549 v0s.patch
cp -a $W/b11549 $W/head; python3 $KIT/edit.py $W/tip > /dev/null
full tip "ggml-vulkan test-backend-ops" & full head "ggml-vulkan llama-bench" &
host nng head & host nn head & host s tip & host v0s tip & host told tip &
wait $PIP
export PYTHONPATH=/tmp/site:$KIT/repo LAB_DIR=/tmp/lab; mkdir -p $LAB_DIR
gen() { (cd $KIT/repo && python3 -m validate.shape_models write $1 $M/$2.gguf "${@:3}") 2>&1 | tail -1; }
gen moe-512 moe-512 --layers 4 --threads 4; gen dense-27b dense-27b --layers 4 --threads 4
. $KIT/gpu.sh
