# lanes.sh CORES SECONDS [CONTESTS]: the contests of lanes.py on a machine with many cores (0-27 580), from the kit that
# pack.sh made (this folder). Called again on the same machine it goes on with what $K holds; on another one, with what
# lanes.jsonl in this folder calls decided. Results in $OUT: lanes.jsonl as they come, lanes.log, logs.tar.gz.
T0=$(date +%s); K=${K:-/tmp/s}; H=$(cd $(dirname $0) && pwd); S=$2; export PYTHONUNBUFFERED=1
left() { echo $(( S - ($(date +%s) - T0) )); }
mkdir -p $K/bin $K/repo $K/o
[ -e $K/ready ] || {
  tar xJf $H/bin.tar.xz -C $K/bin && tar xJf $H/repo.tar.xz -C $K/repo &&
    python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target $K/site $H/whl/*.whl || exit 1
  [ ! -e $H/lanes.jsonl ] || cp $H/lanes.jsonl $K/o/
}
export PYTHONPATH=$K/site:$K/repo LD_LIBRARY_PATH=$K/bin LAB_DIR=$K/lab; mkdir -p $K/lab; E=$K/repo/docs/evidence/speculation
cd $K/repo
[ -e $K/ready ] || { python3 $E/models.py $K/deep && touch $K/ready || exit 1; }
{ uname -r; lscpu -e=CPU,CORE,SOCKET,NODE; lscpu | grep -E 'Model name|^CPU\(s\)|Thread|L3'; $K/bin/llama-server --version; } > $K/o/machine.txt 2>&1
grep -v : $K/o/machine.txt | head -40; uptime
python3 $E/lanes.py $K/bin/llama-server $K/deep $1 $(( $(left) - 25 )) $K/o/lanes.jsonl 8,14,20 ${3:+"$3"} > $K/o/lanes.log 2>&1 &
save() { cp -f $K/o/*.jsonl $K/o/*.txt $K/o/*.log $OUT/ 2>/dev/null; }
while [ $(left) -gt 6 ] && [ -n "$(jobs -r)" ]; do sleep 3; save; done
kill $(jobs -p) 2>/dev/null; sleep 1; kill -9 $(pgrep -f $K/bin/llama-server) 2>/dev/null; save
tar czf $OUT/logs.tar.gz -C $K o $(cd $K && ls -d o/lane-*/logs 2>/dev/null) 2>/dev/null; cat $K/o/lanes.log | tail -80
