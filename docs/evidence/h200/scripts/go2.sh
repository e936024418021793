# Speed: go2.sh SECONDS FIRST_QUAD COLUMNS, on the machine that go1.sh built on.
. $KIT/setup.sh
[ -d $W/keep/b11549-tip ] || { echo "the builds are gone"; exit 1; }
python3 $D/measure.py $W/keep $W/quantize_shim.so $OUT/samples-$2.jsonl $1 $2 $3 2>&1 | tee $OUT/measure-$2.log
el done
