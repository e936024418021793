# speed.sh SECONDS FIRST_QUAD, on the machine that prepare.sh built on.
. $(dirname $0)/setup.sh
[ -d $W/keep/tip ] || { echo "the builds are gone"; exit 1; }
python3 $D/measure.py $W/keep $W/quantize_shim.so $OUT/samples-$2.jsonl $1 $2 2>&1 | tee $OUT/measure-$2.log
el done
