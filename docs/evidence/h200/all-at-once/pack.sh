# pack.sh PARTS BASE TIP UNDEFERRED DEST: the carried folder (below 60 MiB).
# PARTS: src.tar.xz (b11549 and b10566), cuda.tar.xz (ggml/src/ggml-cuda of b11549), glslc.tar.xz, prefix.tar.xz, cpu-flags.txt,
# debs/, whl/, spirv.tar.xz (the folder vulkan/spirv of a lab: shaders by content), cpu-bin.tar.xz (a portable
# llama-server of the tip). BASE, TIP and UNDEFERRED (the tip without speculative-deferred-states) are commits of the
# repository in the current folder.
set -e
here=$(cd $(dirname $0) && pwd); root=$(cd $here/../../../.. && pwd); DEST=$5
rm -rf $DEST; mkdir -p $DEST; cp -r $1/. $DEST/
cp $here/*.sh $here/*.py $here/x.patch $here/../scripts/{setup.sh,quantize_shim.c} $here/../two-gpus/scripts/edit.py $here/../rocmfpx/exact.cpp $DEST/
cp $here/../moe/{measure2.py,numerics2.py} $root/validate/vulkan/spirv_cache.py $DEST/
cp $here/../moe/candidate-c-*.patch $DEST/p1.patch; cp $here/../moe/candidate-a-*.patch $DEST/p4.patch; cp $here/../moe/candidate-b-*.patch $DEST/p5.patch
cp $here/tile.patch.in $DEST/p3.patch.in; cp $here/rows.patch $DEST/p2.patch
sed -e 's/ENOUGH = 4/ENOUGH = 3/; s/("b11549", /("head", /g; s/samples-{gpu}/id-samples-{gpu}/; s/"quads.jsonl"/"id-quads.jsonl"/' $here/../two-gpus/scripts/measure.py > $DEST/id.py
git diff --full-index --binary $2 $3 -- . ':!docs' > $DEST/tip.patch
git diff --full-index $4 $3 -- common > $DEST/deferred.patch
tar cJf $DEST/repo.tar.xz --exclude=__pycache__ --exclude=series/patches -C $root validate upstream series docs/evidence pyproject.toml
du -sm $DEST
