# master.sh SECONDS: the trees and models, then gpu.sh. Results in /tmp/o. A part that fails ends nothing else.
export KIT=/tmp/k WORK=/tmp/b W=/tmp/b PYTHONUNBUFFERED=1; S=$1; START=$(date +%s); END=$(( START + S )); O=/tmp/o; M=/dev/shm; BIG=/tmp/m27
mkdir -p $O/build $W/keep $W/planted $BIG; cd $KIT
. $KIT/setup.sh; set +e
el() { echo "[$(( $(date +%s) - START )) s] $*"; }
left() { echo $(( END - $(date +%s) )); }
export __EGL_VENDOR_LIBRARY_FILENAMES=/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json
{ nvidia-smi --query-gpu=index,name,driver_version,vbios_version,clocks.max.sm,clocks.max.mem,persistence_mode --format=csv; uname -r; lscpu | grep -E 'Model name|^CPU\(s\)|L3|NUMA|Thread'; lscpu -e=CPU,CORE,SOCKET,NODE | head -40; $W/glslc.sh --version; gcc --version | head -1; ldd --version | head -1; cmake --version | head -1; df -h /dev/shm /tmp; free -g; cat $KIT/*.commit; } > $O/machine.txt 2>&1
tar xJf src.tar.xz -C $W & U=$!; tar xJf spirv.tar.xz -C $W & wait $U $!
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /tmp/site $KIT/whl/*.whl &
PIP=$!
# shaders that were compiled before, by content (validate/vulkan/spirv_cache.py); those of b10566 are not among them
printf '#!/bin/sh\nexec /usr/bin/env python3 -S -E -I %s/spirv_cache.py %s/spirv IDENTITY %s/glslc.sh "$@"\n' $KIT $W $W | sed s/IDENTITY/7a18cd32882b57eb5cc4356cc14cf8bbf4bb89fc32ab01889561ddf6924ee049/ > $W/glslc-cached.sh
chmod +x $W/glslc-*.sh
tree() { cp -a $W/$2 $W/$1; for p in "${@:3}"; do (cd $W/$1 && patch -f -p1 -s < $KIT/$p) || { echo "$p does not apply to $1"; touch $W/ended.$1; }; done; }
make() { # NAME NICE JOBS TARGETS
  nice -n $2 cmake --build $W/$1/build -j $3 --target $4 > $O/build/$1.log 2>&1 || { grep -m5 -E 'error|FAILED' $O/build/$1.log; tail -3 $O/build/$1.log; touch $W/ended.$1; return 1; }
  el "$1 built"
}
full() { # NAME NICE TARGETS GLSLC
  [ ! -e $W/ended.$1 ] || return; GLSLC=$4 conf $1 > /dev/null || { touch $W/ended.$1; return; }
  make $1 $2 16 "$3" && mkdir -p $W/keep/$1 && cp -a $W/$1/build/bin/. $W/keep/$1/ && touch $W/keep/$1/ready
}
host() { # NAME FROM: libggml-vulkan.so of NAME beside the programs of FROM
  [ ! -e $W/ended.$1 ] || return; GLSLC=$W/glslc-cached.sh conf $1 > /dev/null || { touch $W/ended.$1; return; }
  make $1 3 12 ggml-vulkan || return; until [ -e $W/keep/$2/ready ]; do [ -e $W/ended.$2 ] && return; sleep 1; done
  mkdir -p $W/keep/$1; cp -a $W/keep/$2/. $W/keep/$1/; rm -f $W/keep/$1/ready $W/keep/$1/libggml-vulkan*; cp -a $W/$1/build/bin/libggml-vulkan* $W/keep/$1/; touch $W/keep/$1/ready
}
cpu() { # llama-bench for the CPU: b11549, and with every graph 10 and 20 % longer
  cmake -S $W/cpu -B $W/cpu/build -G Ninja $(cat $KIT/cpu-flags.txt) > $O/build/cpu.conf.log 2>&1 || { tail -5 $O/build/cpu.conf.log; return; }
  for name in base slow-10 slow-20; do
    [ $name = base ] || cp $KIT/$name.cpp $W/cpu/src/llama-context.cpp
    cmake --build $W/cpu/build -j 16 --target llama-bench > $O/build/cpu-$name.log 2>&1 || { tail -5 $O/build/cpu-$name.log; return; }
    mkdir -p $W/planted/$name && cp -aL $W/cpu/build/bin/. $W/planted/$name/; el "cpu $name built"
  done
  [ $(sha256sum $W/planted/*/libllama.so.0 | cut -d ' ' -f 1 | sort -u | wc -l) = 3 ] && touch $W/planted/ready
}
tree head b11549; tree cpu b11549; tree tip b11549 tip.patch; tree nn b11549 tile.patch nn.patch; tree nng nn gdn.patch
C=$W/glslc-cached.sh
full tip 0 "ggml-vulkan llama-server" $C & B=$!; full head 0 "ggml-vulkan llama-bench" $C & B="$B $!"; full b10566 0 "ggml-vulkan llama-bench" $W/glslc.sh & B="$B $!"
cpu & B="$B $!"; host nng head & B="$B $!"; host nn head & B="$B $!"
wait $PIP
export PYTHONPATH=/tmp/site:$KIT/repo LAB_DIR=/tmp/lab; mkdir -p $LAB_DIR
gen() { (cd $KIT/repo && python3 -m validate.shape_models write $1 $M/$2.gguf "${@:3}") 2>&1 | tail -1; }
gen moe-512 moe-512 --layers 4 --threads 4; gen dense-27b dense-27b --layers 4 --threads 4; gen moe-128 moe-128 --layers 8 --threads 4
M=$BIG; gen dense-27b dense-27b --endless --threads 6 && gen dflash2-27b dflash2-27b --for $BIG/dense-27b.gguf --endless --threads 4; M=/dev/shm
mkdir -p /tmp/lab-planted/models; xz -dc $KIT/smol-skeleton.gguf.xz > $W/skeleton.gguf
python3 $KIT/make_smol.py $W/skeleton.gguf /tmp/lab-planted/models/SmolLM2-135M-Instruct.Q4_1.gguf; el "models: $(ls $M/*.gguf $BIG/*.gguf | wc -l) of 5"
. $KIT/gpu.sh
