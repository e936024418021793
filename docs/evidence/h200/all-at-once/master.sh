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
printf '#version 450\nlayout(local_size_x=64) in;\nvoid main(){}\n' > $W/stub.comp; $W/glslc.sh --target-env=vulkan1.2 $W/stub.comp -o $W/stub.spv
cat > $W/glslc-bench.sh <<G
#!/bin/sh
for w in "\$@"; do [ "\$p" = -o ] && out=\$w; [ "\$p" = -MF ] && mf=\$w; p=\$w; done
n=\${out##*/}; n=\${n%.spv}
case \$n in
  *_cm2*|conv*|matmul_*iq*|matmul_*q[123]_*|matmul_*q4_[01]*|matmul_*q5*|matmul_*q8_0*|matmul_*xfp4*|matmul_*nvfp4*|mul_mat_vec_*iq*|mul_mat_vec_*q[123]_*|mul_mat_vec_*q5*|mul_mat_vec_*fp4*|cpy_f32_*q*|set_rows_*q*|flash_attn*q[458]*|dequant_iq*) ;;
  *) exec $W/glslc-cached.sh "\$@" ;;
esac
[ -n "\$mf" ] && : > "\$mf"
cp $W/stub.spv "\$out"
G
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
tree base b11549; tree x b11549 x.patch; tree f1 b11549 p1.patch; tree f2 f1 p2.patch; tree f3 f2; tree f4 f2 p4.patch; tree f5 f4 p5.patch
(cd $W && tree tip b11549 && cd tip && tar xJf $KIT/cuda.tar.xz && patch -f -p1 -s < $KIT/tip.patch)
for t in tip; do python3 $KIT/edit.py $W/$t > /dev/null; done
cp $W/base/tests/test-backend-ops.cpp $W/plain-ops.cpp; python3 $KIT/edit.py $W/base > /dev/null
rm -f $W/keep/head/ready
(GLSLC=$W/glslc-cached.sh conf base; make base 0 24 "ggml-vulkan llama-bench test-backend-ops"; mkdir -p $W/keep/head; cp -a $W/base/build/bin/. $W/keep/head/; cp -a $W/keep/head $W/keep/copy; touch $W/keep/head/ready $W/keep/copy/ready) &
host x 0 &
for f in f1 f2 f4 f5; do host $f 5 & done
(GLSLC=$W/glslc-cached.sh conf tip > /dev/null; make tip 6 8 "ggml-vulkan test-backend-ops llama-server" && mkdir -p $W/keep/tip && cp -a $W/tip/build/bin/. $W/keep/tip/ && touch $W/keep/tip/ready; touch $W/ended.tip
 cd $W/tip && patch -f -p1 -s -R < $KIT/deferred.patch && make tip 3 8 llama-server && mkdir -p $W/keep/undeferred && cp -a $W/tip/build/bin/. $W/keep/undeferred/ && touch $W/keep/undeferred/ready; touch $W/ended.undeferred) &
mkdir -p $W/keep/cpu && tar xJf $KIT/cpu-bin.tar.xz -C $W/keep/cpu && touch $W/keep/cpu/ready
(tree cuda b11549; cd $W/cuda && tar xJf $KIT/cuda.tar.xz && patch -f -p1 -s < $KIT/tip.patch; python3 $KIT/edit.py $W/cuda > /dev/null
 cmake -S $W/cuda -B $W/cuda/build -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90 -DGGML_CUDA_FA=OFF -DGGML_CUDA_NCCL=OFF -DGGML_CUDA_NO_VMM=ON \
  -DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_CURL=OFF > $W/cuda.conf.log 2>&1
 make cuda 10 20 test-backend-ops && mkdir -p $W/keep/cuda && cp -a $W/cuda/build/bin/. $W/keep/cuda/ && touch $W/keep/cuda/ready; touch $W/ended.cuda) &
(tree old b10566; GLSLC=$W/glslc-bench.sh conf old > /dev/null; make old 10 10 llama-bench && mkdir -p $W/keep/b10566 && cp -a $W/old/build/bin/. $W/keep/b10566/ && touch $W/keep/b10566/ready; touch $W/ended.b10566) &
wait $PIP
export PYTHONPATH=/tmp/site:$KIT/repo LAB_DIR=/tmp/lab; mkdir -p $LAB_DIR
gen() { (cd $KIT/repo && python3 -m validate.shape_models write $1 $M/$2.gguf "${@:3}") 2>&1 | tail -1; }
gen moe-128 moe-128 --layers 8 --threads 4 & A=$!; gen moe-512 moe-512 --layers 4 --threads 4 & B=$!; wait $A $B
BIG=/tmp/m27; mkdir -p $BIG
(M=$BIG; gen dense-27b dense-27b --endless --threads 6; gen dflash2-27b dflash2-27b --for $BIG/dense-27b.gguf --endless --threads 4; touch $BIG/ready; el "27B models") &
gen dense-27b dense --layers 4 --threads 4
for i in $(seq 400); do [ -e $W/keep/x/ready ] && break; sleep 1; done; el "x ready, exploring"
taskset -c 0-1 python3 $KIT/explore.py $W/keep/x $M $O 0 moe-128 & A=$!
taskset -c 2-3 python3 $KIT/explore.py $W/keep/x $M $O 1 moe-512 & B=$!
wait $A $B; PICK=$(python3 $KIT/pick.py $O); el "explored, pick: $PICK"; echo "$PICK" > $O/pick.txt
(set -- $PICK
 if [ $# = 6 ]; then
  sed "s/@THREADS@/$1/; s/@BM@/$2/g; s/@BN@/$3/g; s/@BK@/$4/; s/@WM@/$5/; s/@WN@/$6/" $KIT/p3.patch.in > $O/p3.patch
  for i in $(seq 240); do [ -e $W/keep/f4/ready ] && [ -e $W/keep/f5/ready ] && break; sleep 1; done
  for f in f3 f4 f5; do (cd $W/$f && patch -f -p1 -s < $O/p3.patch) || echo "p3 does not apply to $f"; done
  rm -rf $W/keep/f4 $W/keep/f5
  for f in f3 f4 f5; do host $f 0 & done; wait
 fi; touch $W/final; el "final patches built") &
. $KIT/gpu.sh
