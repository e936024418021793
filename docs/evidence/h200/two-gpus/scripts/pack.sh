# pack.sh PARTS MODEL DEST: the two carried folders. PARTS holds src.tar.xz glslc.tar.xz prefix.tar.xz repo.tar.xz
# tip.patch slow-10.cpp slow-20.cpp cpu-flags.txt debs/ whl/; each folder stays below 60 MiB.
set -e
here=$(cd $(dirname $0) && pwd); DEST=$3
rm -rf $DEST/kit1 $DEST/kit2 $DEST/kit3; mkdir -p $DEST/kit1 $DEST/kit2 $DEST/kit3
for k in 1 2 3; do cp $here/*.sh $here/*.py $here/../../scripts/{setup.sh,stand-ins.sh,quantize_shim.c} $DEST/kit$k/; done
cp -r $1/{src.tar.xz,glslc.tar.xz,prefix.tar.xz,repo.tar.xz,tip.patch,slow-10.cpp,slow-20.cpp,cpu-flags.txt,debs,whl} $DEST/kit1/
head -c 40000000 $2 > $DEST/kit1/m.00
tail -c +40000001 $2 > $DEST/kit2/m.01
du -sm $DEST/kit*
