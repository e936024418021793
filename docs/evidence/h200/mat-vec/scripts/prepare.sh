# Builds b10566, b11549 and the patched b11549, then runs the numerics.
. $(dirname $0)/setup.sh
set -e
# both arms alike: a perf sample lasts 0.12 s instead of 1 s, more columns, and errors shown on demand
measuring() {
  f=$W/$1/tests/test-backend-ops.cpp
  sed -i 's|while (total_time_us < 1000\*1000);|while (total_time_us < 120*1000);|' $f
  sed -i 's|for (int bs : {1, 2, 3, 4, 5, 8, 512}) {|for (int bs : {1, 2, 3, 4, 5, 6, 7, 8, 512, 2048}) {|' $f
  sed -i 's|GGML_TYPE_Q6_K, GGML_TYPE_IQ2_XS, GGML_TYPE_IQ4_XS}) {|GGML_TYPE_Q6_K, GGML_TYPE_IQ2_XS, GGML_TYPE_IQ3_S, GGML_TYPE_IQ4_XS}) {|' $f
  sed -i 's|^            if (err > ud->tc->max_err(ud->backend1)) {|            if (getenv("SHOW_ERR")) { printf("ERRIS %.9g ", err); }\n&|' $f
  grep -c 'SHOW_ERR\|120\*1000\|7, 8, 512, 2048' $f
}
build() {
  cmake --build $W/$1/build -j ${2:-18} --target test-backend-ops > $W/$1.build.log 2>&1 ||
    { grep -m5 -E 'error|FAILED' $W/$1.build.log; tail -5 $W/$1.build.log; return 1; }
}
one() { build $1 $2; keep $1 $1; el $1 built; }
{
  nvidia-smi --query-gpu=name,driver_version,vbios_version,clocks.max.sm,clocks.max.mem,persistence_mode --format=csv
  uname -r; $W/glslc.sh --version; gcc --version | head -1; ldd --version | head -1; cmake --version | head -1
} > $OUT/machine.txt 2>&1
gcc -O2 -shared -fPIC -o $W/quantize_shim.so $D/quantize_shim.c -ldl
unpack b11549; unpack b10566; cp -a $W/b11549 $W/tip
(cd $W/tip && patch -p1 -s < $D/b11549-tip.patch)
for t in b11549 b10566 tip; do measuring $t; conf $t > /dev/null & done; wait
el configured
one b11549 16 & one tip 16 & one b10566 16 & wait
for a in b10566 b11549 tip; do sha256sum $W/keep/$a/libggml-*.so.0 $W/keep/$a/test-backend-ops; done 2>/dev/null | sed "s,$W/keep/,," | tee $OUT/sha256.txt
el done
