# remake-tip.sh GIT COMMIT [BASE]: tip.patch beside this script: COMMIT of the repository GIT (bare or not; only read) against b11549 (BASE),
# without docs/ and ggml-cuda (src.tar.xz has neither), tried on the sources of src.tar.xz: it must apply without fuzz and give COMMIT's files.
set -e
K=$(cd $(dirname $0) && pwd); G=$1; C=$2; BASE=${3:-219e76e21b0b435679d318d930e46e63dd114013}
g() { git -C $G "$@"; }
g cat-file -e $C^{commit}; g cat-file -e $BASE^{commit} || { echo "$G has no commit $BASE (b11549): name the base as third word"; exit 1; }
g merge-base --is-ancestor $BASE $C || { echo "$BASE is not below $C"; exit 1; }
WITHOUT=(':!docs' ':!ggml/src/ggml-cuda')
T=$(mktemp -d); trap 'rm -rf $T' EXIT
g diff --full-index --binary --no-renames $BASE $C -- . "${WITHOUT[@]}" > $T/tip.patch
[ -s $T/tip.patch ] || { echo "$C changes nothing of $BASE"; exit 1; }
nice -n 19 tar xJf $K/src.tar.xz -C $T b11549
(cd $T/b11549 && nice -n 19 patch -f -p1 < $T/tip.patch > $T/said) || { grep -v '^patching' $T/said; echo "it does not apply to src.tar.xz"; exit 1; }
if grep -iE 'fuzz|offset' $T/said; then echo "it applies with fuzz or offsets only"; exit 1; fi
g diff --name-only --no-renames --diff-filter=d $BASE $C -- . "${WITHOUT[@]}" | while read f; do
  g show $C:"$f" | cmp - $T/b11549/"$f" || { echo "$f is another file than the commit has"; exit 1; }
done
mv $T/tip.patch $K/tip.patch; g rev-parse $C > $K/tip.commit
echo "tip.patch: $(grep -c '^diff --git' $K/tip.patch) files, $(wc -c < $K/tip.patch) bytes, of $(cat $K/tip.commit)"
