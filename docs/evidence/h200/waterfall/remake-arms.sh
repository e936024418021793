# remake-arms.sh PATCHES LAB_GIT [BASE]: tile.patch, nn.patch, gdn.patch beside this script from the series' patches (folder PATCHES), each
# put on b11549 (BASE, a commit of the bare repository LAB_GIT, which is only read) one after the other with `git apply`, no fuzz.
set -e
K=$(cd $(dirname $0) && pwd); P=$(realpath $1); G=$(realpath $2); BASE=${3:-219e76e21b0b435679d318d930e46e63dd114013}
T=$(mktemp -d); trap 'rm -rf $T' EXIT
git init -q --bare $T/r.git; echo $G/objects > $T/r.git/objects/info/alternates
export GIT_DIR=$T/r.git GIT_INDEX_FILE=$T/index
git cat-file -e $BASE^{commit}; git read-tree $BASE; last=$(git write-tree)
for pair in tile:vulkan-moe-tile-by-rows nn:vulkan-rms-norm-rows gdn:vulkan-gated-delta-net-blocks; do
  git apply --cached $P/${pair#*:}.patch; tree=$(git write-tree)
  git diff --full-index --binary $last $tree > $K/${pair%%:*}.patch; last=$tree
  # the lines that are added and taken away are those of the series
  cmp <(grep -E '^[+-]' $K/${pair%%:*}.patch) <(sed -n '/^diff --git/,$p' $P/${pair#*:}.patch | grep -E '^[+-]') || { echo "${pair%%:*}.patch has other lines than ${pair#*:}.patch"; exit 1; }
  echo "${pair%%:*}.patch: as ${pair#*:}.patch"
done
