# pack.sh BIN WHEELS DEBS DEST: the carried folder (below 60 MiB). BIN: llama-server of the tip with its libraries.
set -e
here=$(cd $(dirname $0) && pwd); root=$(cd $here/../../.. && pwd); DEST=$4
rm -rf $DEST; mkdir -p $DEST; cp $here/run.sh $here/lanes.sh $DEST/
tar cJf $DEST/bin.tar.xz -C $1 .
tar cJf $DEST/repo.tar.xz --exclude=__pycache__ --exclude=series/patches -C $root validate upstream series docs/evidence/speculation
cp -r $2 $DEST/whl; cp -r $3 $DEST/debs; du -sm $DEST
