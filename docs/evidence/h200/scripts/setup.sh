# Sourced by the scripts of every session on the bare GPU machine: loaders, glslc, headers, and the build steps.
set -e
# KIT: debs/ glslc/ src/ patch/ prefix.tar.xz and these scripts; OUT: where results go
D=$KIT; W=${WORK:?}; mkdir -p $W
for f in $D/debs/*.deb; do dpkg -x $f /; done; ldconfig
export VK_DRIVER_FILES=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
export __EGL_VENDOR_LIBRARY_FILENAMES=/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json
tar xJf $D/prefix.tar.xz -C $W; mkdir -p $W/glslc; cp $D/glslc/* $W/glslc/
cat > $W/glslc.sh <<G
#!/bin/sh
exec $W/glslc/ld-linux-x86-64.so.2 --library-path $W/glslc $W/glslc/glslc "\$@"
G
chmod +x $W/glslc.sh

T0=$(date +%s)
el() { echo "[$(( $(date +%s) - T0 )) s] $*"; }

unpack() { mkdir -p $W/$1; tar xJf $D/src/$1.tar.xz -C $W/$1; }

conf() {
  cmake -S $W/$1 -B $W/$1/build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON \
    -DGGML_VULKAN=ON -DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_CURL=OFF \
    -DCMAKE_PREFIX_PATH=$W/prefix -DVulkan_INCLUDE_DIR=$W/prefix/include \
    -DVulkan_LIBRARY=/usr/lib/x86_64-linux-gnu/libvulkan.so.1 -DVulkan_GLSLC_EXECUTABLE=${GLSLC:-$W/glslc.sh} \
    > $W/$1.conf.log 2>&1 || { tail -20 $W/$1.conf.log; return 1; }
  grep -E 'supported by glslc' $W/$1.conf.log || true
}

build() {
  cmake --build $W/$1/build -j 18 --target test-backend-ops llama-bench > $W/$1.build.log 2>&1 ||
    { grep -m5 -E 'error|FAILED' $W/$1.build.log; tail -5 $W/$1.build.log; return 1; }
}

# keep TREE NAME: copy the binaries of a build aside, before the next patch rebuilds in place
keep() { mkdir -p $W/keep/$2; cp -a $W/$1/build/bin/* $W/keep/$2/; }

# pack NAME: into $OUT, in parts of 15 MB
pack() { tar cf - -C $W/keep/$1 . | xz -6 -T4 | split -b 15M -d -a 1 - $OUT/$1.tar.xz.; }
