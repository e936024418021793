# Builds everything, all at once; may be started again. A file W/done/NAME says that NAME is there.
export KIT=/tmp/k WORK=/tmp/b OUT=${OUT:-/tmp/o}
exec 9> /tmp/build.lock; flock -n 9 || exit 0
. /tmp/k/setup.sh
set +e
. /tmp/k/stand-ins.sh
STAND_INS=$GLSLC
mkdir -p $W/done
[ -d $W/tip ] || {
  tar xJf $KIT/src.tar.xz -C $W
  cp -a $W/b11549 $W/cpu; cp -a $W/b11549 $W/tip
  (cd $W/tip && patch -p1 -s < $KIT/tip.patch) || { echo "tip.patch does not apply"; exit 1; }
  for t in b11549 b10566 tip; do python3 $KIT/edit.py $W/$t || exit 1; done
}
gcc -O2 -shared -fPIC -DVALUES=65536 -o $W/quantize_shim.so $KIT/quantize_shim.c -ldl
el unpacked

vulkan() { # NAME GLSLC JOBS
  [ -e $W/done/$1 ] && return
  GLSLC=$2 conf $1
  cmake --build $W/$1/build -j $3 --target test-backend-ops > $W/$1.build.log 2>&1 && keep $1 $1 && touch $W/done/$1 ||
    { grep -m5 -E 'error|FAILED' $W/$1.build.log; tail -5 $W/$1.build.log; }
  el $1 built
}

slow() { # NAME SOURCE: the CPU-only llama-bench with this src/llama-context.cpp
  cp $2 $W/cpu/src/llama-context.cpp
  cmake --build $W/cpu/build -j 16 --target llama-bench > $W/cpu-$1.build.log 2>&1 || tail -5 $W/cpu-$1.build.log
  mkdir -p $W/keep/$1 && cp -aL $W/cpu/build/bin/. $W/keep/$1/ && el $1 built
}

cpu() {
  [ -e $W/done/cpu ] && return
  cmake -S $W/cpu -B $W/cpu/build -G Ninja $(cat $KIT/cpu-flags.txt) > $W/cpu.conf.log 2>&1 || tail -20 $W/cpu.conf.log
  cp -n $W/b11549/src/llama-context.cpp $W/base.cpp
  slow base $W/base.cpp; slow slow-10 $KIT/slow-10.cpp; slow slow-20 $KIT/slow-20.cpp
  [ $(cat $W/keep/{base,slow-10,slow-20}/libllama.so.0 | wc -c) -gt 0 ] && touch $W/done/cpu
}

vulkan tip $W/glslc.sh 18 & vulkan b11549 $W/glslc.sh 18 & vulkan b10566 $STAND_INS 12 & cpu &
wait
touch $W/done/all
el done
