# call.sh SECONDS MASTER_SECONDS: starts master.sh once, waits, brings back what is there.
D=$(dirname $0); T0=$(date +%s); mkdir -p /tmp/k /tmp/o
[ -e $D/master.sh ] && cp -r $D/. /tmp/k/
if [ ! -e /tmp/started ]; then
  touch /tmp/started; cd /tmp/k; mkdir -p glslc repo; tar xJf glslc.tar.xz -C glslc; tar xJf repo.tar.xz -C repo
  setsid bash /tmp/k/master.sh $2 > /tmp/o/master.log 2>&1 < /dev/null &
fi
while [ $(( $(date +%s) - T0 )) -lt $1 ] && [ ! -e /tmp/o/all-done ]; do sleep 2; done
tar cf - -C /tmp o | xz -1 -T4 > $OUT/o.tar.xz; cp /tmp/b/*.build.log $OUT/ 2>/dev/null; (cd $OUT; ls | grep build.log | tail -n +7 | xargs rm -f)
cat /tmp/o/master.log | tail -60; tail -n 12 /tmp/o/lane?.log /tmp/o/contests.log /tmp/o/norms.log 2> /dev/null; ls -la $OUT
