# Builds the four arms (two trees, each base then patched, the trees side by side), packs them into $OUT,
# and runs the numerics: neither needs a quiet GPU.
. $KIT/setup.sh

tree_b10566() {
  unpack b10566; conf b10566
  build b10566; keep b10566 b10566-base; el b10566 base built
  (cd $W/b10566 && patch -p1 -s < $D/patch/b10566-iq3s.patch && patch -p1 -s < $D/patch/b10566-pad.patch)
  build b10566; keep b10566 b10566-tip; el b10566 tip built
}

tree_b11549() {
  unpack b11549; conf b11549
  build b11549; keep b11549 b11549-base; el b11549 base built
  (cd $W/b11549 && patch -p1 -s < $D/patch/b11549-pad.patch)
  build b11549; keep b11549 b11549-tip; el b11549 tip built
}

{
  nvidia-smi --query-gpu=name,driver_version,vbios_version,clocks.max.sm,clocks.max.mem,persistence_mode --format=csv
  uname -r; $W/glslc.sh --version; gcc --version | head -1; ldd --version | head -1; cmake --version | head -1
} > $OUT/machine.txt 2>&1
cat $OUT/machine.txt

tree_b10566 & a=$!
tree_b11549 & b=$!
gcc -O2 -shared -fPIC -o $W/quantize_shim.so $D/quantize_shim.c -ldl
wait $a
python3 $D/numerics.py iq3s $W/keep $OUT/numerics-iq3s.jsonl 90; el iq3_s numerics
wait $b
(pack b11549-base; pack b10566-base; pack b11549-tip; pack b10566-tip; el packed) & c=$!
$W/keep/b11549-tip/llama-bench --list-devices 2>&1 | tail -3
python3 $D/numerics.py pad $W/keep $OUT/numerics-pad.jsonl 200; el pad numerics
wait $c
sha256sum $W/keep/*/libggml-*.so* $W/keep/*/test-backend-ops > $W/sha256.txt
cat $W/sha256.txt | sed "s,$W/keep/,,"
ls -la $OUT

# what a sample costs, and whether the shim changes the time of the kernel
for shim in $W/quantize_shim.so ''; do
  time LD_PRELOAD=$shim $W/keep/b10566-tip/test-backend-ops perf -b Vulkan0 -o MUL_MAT -p 'type_a=iq3_s,type_b=f32,m=4096,n=8,k=14336' 2>&1 | grep 'us/run' || true
done
export GGML_VK_DISABLE_COOPMAT2=1
time LD_PRELOAD=$W/quantize_shim.so $W/keep/b11549-tip/test-backend-ops perf -b Vulkan0 -o MUL_MAT -p 'type_a=(f16|q2_K|iq3_s),type_b=f32,m=4096,n=512,k=14336' 2>&1 | grep 'us/run' || true
el done
