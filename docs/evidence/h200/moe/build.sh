# After the kit's own builds: llama-bench for b11549, the three MoE steps, the whole b10566, llama-server of the tip.
export KIT=/tmp/k WORK=/tmp/b OUT=${OUT:-/tmp/o}
exec 8> /tmp/build2.lock; flock -n 8 || exit 0
. /tmp/k/setup.sh
set +e
for i in $(seq 400); do [ -e $W/done/all ] && break; sleep 1; done
J=${JOBS:-12}
mk() { cmake --build $W/$1/build -j $J --target $2 >> $W/$1.build2.log 2>&1 || { grep -m5 -E 'error|FAILED' $W/$1.build2.log; tail -5 $W/$1.build2.log; return 1; }; }
chain() {
  mk b11549 "llama-bench test-backend-ops" && keep b11549 head && el b11549 bench
  for i in 1 2 3; do
    (cd $W/b11549 && patch -p1 -s < $(ls $KIT/moe/000$i-*.patch)) && mk b11549 "llama-bench test-backend-ops" && keep b11549 m$i && touch $W/done/m$i && el m$i
  done
}
old() {
  [ -d $W/b10566f ] || { mkdir -p $W/x && tar xJf $KIT/src.tar.xz -C $W/x b10566 && mv $W/x/b10566 $W/b10566f; }
  GLSLC=$W/glslc.sh conf b10566f; mk b10566f llama-bench && keep b10566f b10566f && touch $W/done/old && el b10566f
}
server() { mk tip "llama-server llama-bench" && keep tip tipsrv && touch $W/done/server && el tip server; }
(server; old) & chain & wait
el builds 2 done
