#!/bin/bash
# build.sh TREE : builds ${WORK:?}/TREE/drv with stub shaders except plain mul_mm cm1
set -e
T=${WORK:?}/$1/src; B=${WORK:?}/$1/b; mkdir -p $B/spv $B/o; cd $B
V=$T/ggml/src/ggml-vulkan; DEF="-DGGML_VULKAN_COOPMAT_GLSLC_SUPPORT -DGGML_VULKAN_INTEGER_DOT_GLSLC_SUPPORT"
printf '#version 450\nlayout(local_size_x=64) in;\nvoid main(){}\n' > stub.comp; glslc stub.comp -o stub.spv
cat > rec.sh <<'R'
#!/bin/sh
for w in "$@"; do [ "$p" = -o ] && out=$w; [ "$p" = -MF ] && : > "$w"; p=$w; done
n=${out##*/}; n=${n%.spv}
case $n in matmul_f16_cm1|matmul_f16_f16acc_cm1|matmul_iq3_s_f16_cm1|matmul_iq3_s_f16_f16acc_cm1|matmul_quant_f16_cm1|matmul_quant_f16_f16acc_cm1|matmul_q2_k_f16_cm1|matmul_q2_k_f16_f16acc_cm1) exec glslc "$@";; esac
cp STUB "$out"
R
sed -i "s#STUB#$B/stub.spv#" rec.sh; chmod +x rec.sh
g++ -O0 -std=c++17 -pthread $DEF -o gen $V/vulkan-shaders/vulkan-shaders-gen.cpp
./gen --output-dir $B/spv --target-hpp $B/ggml-vulkan-shaders.hpp
for f in $V/vulkan-shaders/*.comp; do n=$(basename $f); ./gen --glslc $B/rec.sh --source $f --output-dir $B/spv --target-hpp $B/ggml-vulkan-shaders.hpp --target-cpp $B/$n.cpp >gen.log 2>&1 || { echo gen fail $n; tail -3 gen.log; exit 1; }; done
echo generated $(date)
I="-I$T/ggml/include -I$T/ggml/src -I$V -I$B -DGGML_VERSION=\"x\" -DGGML_COMMIT=\"x\" -D_GNU_SOURCE -DGGML_USE_VULKAN"
comp(){ o=$B/o/$(basename $1).o; case $1 in *.c) gcc -O0 -w -std=gnu11 $I -c $1 -o $o;; *) g++ -O0 -w -std=c++17 $I $DEF -c $1 -o $o;; esac || echo FAIL $1; }
export -f comp; export I DEF B
ls $B/*.comp.cpp $V/*.cpp $T/ggml/src/{ggml.c,ggml.cpp,ggml-alloc.c,ggml-quants.c,ggml-backend.cpp,ggml-backend-meta.cpp,ggml-backend-reg.cpp,ggml-backend-dl.cpp,ggml-threading.cpp,gguf.cpp} 2>/dev/null | xargs -P 3 -I{} bash -c 'comp {}'
g++ -O0 -std=c++17 $I -c ${WORK:?}/drv.cpp -o $B/o/drv.o
g++ -o ../drv $B/o/*.o -lvulkan -ldl -pthread && echo built $(date)
