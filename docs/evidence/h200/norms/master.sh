# master.sh SECONDS: everything of one lease, in a session of its own. Results in /tmp/o.
export KIT=/tmp/k WORK=/tmp/b W=/tmp/b PYTHONUNBUFFERED=1; S=$1; START=$(date +%s); END=$(( START + S )); O=/tmp/o; M=/dev/shm
mkdir -p $O $W/keep; cd $KIT
el() { echo "[$(( $(date +%s) - START )) s] $*"; }
left() { echo $(( END - $(date +%s) )); }
. $KIT/setup.sh; set +e
el() { echo "[$(( $(date +%s) - START )) s] $*"; }
export __EGL_VENDOR_LIBRARY_FILENAMES=/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json
{ nvidia-smi --query-gpu=name,driver_version,vbios_version,clocks.max.sm,clocks.max.mem,persistence_mode --format=csv; uname -r; lscpu | grep -E 'Model name|^CPU\(s\)|L3|NUMA|Thread'; $W/glslc.sh --version; gcc --version | head -1; ldd --version | head -1; cmake --version | head -1; nvcc --version | tail -2; } > $O/machine.txt 2>&1
tar xJf src.tar.xz -C $W; tar xJf spirv.tar.xz -C $W
gcc -O2 -shared -fPIC -DVALUES=65536 -o $W/quantize_shim.so $KIT/quantize_shim.c -ldl
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /tmp/site $KIT/whl/*.whl &
PIP=$!
# shaders that were compiled before, by content (validate/vulkan/spirv_cache.py); b10566 leaves out what llama-bench does not run
printf '#!/bin/sh\nexec /usr/bin/env python3 -S -E -I %s/spirv_cache.py %s/spirv IDENTITY %s/glslc.sh "$@"\n' $KIT $W $W | sed s/IDENTITY/7a18cd32882b57eb5cc4356cc14cf8bbf4bb89fc32ab01889561ddf6924ee049/ > $W/glslc-cached.sh
chmod +x $W/glslc-*.sh
tree() { # NAME FROM PATCH...
  cp -a $W/$2 $W/$1; for p in "${@:3}"; do (cd $W/$1 && patch -f -p1 -s < $KIT/$p) || echo "$p does not apply to $1"; done
}
make() { # NAME NICE JOBS TARGETS
  nice -n $2 cmake --build $W/$1/build -j $3 --target $4 > $W/$1.build.log 2>&1 || { grep -m5 -E 'error|FAILED' $W/$1.build.log; tail -3 $W/$1.build.log; return 1; }
  el "$1 built"
}
lib() { # NAME: the binaries of head with the Vulkan backend of NAME
  mkdir -p $W/keep/$1; cp -a $W/keep/head/. $W/keep/$1/; rm -f $W/keep/$1/libggml-vulkan*; cp -a $W/$1/build/bin/libggml-vulkan* $W/keep/$1/; touch $W/keep/$1/ready
}
host() { # NAME TREE: libggml-vulkan.so of NAME, once head is there
  GLSLC=$W/glslc-cached.sh conf $1 > /dev/null; make $1 ${2:-5} 16 ggml-vulkan || return; for i in $(seq 400); do [ -e $W/keep/head/ready ] && break; sleep 1; done; lib $1
}
tree base b11549; tree t b11549 tile.patch; tree nn t nn.patch
(GLSLC=$W/glslc-cached.sh conf base; make base 0 32 "ggml-vulkan llama-bench test-backend-ops"; mkdir -p $W/keep/head; cp -a $W/base/build/bin/. $W/keep/head/; cp -a $W/keep/head $W/keep/copy; touch $W/keep/head/ready $W/keep/copy/ready) &
for f in nn t; do host $f 0 & done
wait $PIP
export PYTHONPATH=/tmp/site:$KIT/repo LAB_DIR=/tmp/lab; mkdir -p $LAB_DIR
gen() { (cd $KIT/repo && python3 -m validate.shape_models write $1 $M/$2.gguf "${@:3}") 2>&1 | tail -1; }
gen moe-128 moe-128 --layers 8 --threads 4 & A=$!; gen moe-512 moe-512 --layers 4 --threads 4 & B=$!; wait $A $B
gen dense-27b dense-27b --layers 4 --threads 4
. $KIT/gpu.sh
