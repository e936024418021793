# After the kit's own builds (../two-gpus/scripts/build.sh): llama-bench and test-backend-ops of b11549, of candidate a, of
# a and b, and of the whole b10566. A file W/done/NAME says that NAME is there; head-copy is the A/A arm.
export KIT=/tmp/k WORK=/tmp/b OUT=${OUT:-/tmp/o}
exec 8> /tmp/build2.lock; flock -n 8 || exit 0
. /tmp/k/setup.sh
set +e
mkdir -p $W/done $W/x
J=${JOBS:-16}
T="llama-bench test-backend-ops"
mk() { cmake --build $W/$1/build -j $J --target $T >> $W/$1.build2.log 2>&1 || { grep -m5 -E 'error|FAILED' $W/$1.build2.log; tail -5 $W/$1.build2.log; return 1; }; }
tree() { [ -d $W/$2 ] || { tar xJf $KIT/src.tar.xz -C $W/x $1 && mv $W/x/$1 $W/$2; }; GLSLC=$W/glslc.sh conf $2; }
chain() {
  tree b11549 moe2 && mk moe2 && keep moe2 head && cp -a $W/keep/head $W/keep/copy && touch $W/done/head && el head
  for p in a b; do
    (cd $W/moe2 && patch -p1 -s < $(ls $KIT/moe/candidate-$p-*.patch)) && mk moe2 && keep moe2 $([ $p = a ] && echo a || echo ab) && touch $W/done/$p && el $p
  done
}
old() { tree b10566 b10566f; mk b10566f && keep b10566f b10566 && touch $W/done/old && el b10566; }
old & chain & wait
el build2 done
