cd "${WORK:?}"; gcc -O1 -o run run.c -lvulkan || exit 1
export VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json
bad=0; n=0
for var in sub shm; do for mk in "19 8448" "16 256" "5 4096"; do for r in 1 2 4; do for c in 1 2 3 4 5 6 7 8; do
./run lv_base_$var.spv $r $c $mk > a.bin 2>a.err || { echo fail; exit 1; }; ./run lv_new_$var.spv $r $c $mk > b.bin 2>b.err || { echo fail; exit 1; }; n=$((n+1)); cmp -s a.bin b.bin || { bad=$((bad+1)); echo "differ $var $mk r$r c$c $(cat a.err) $(cat b.err) $(cmp -l a.bin b.bin | wc -l)"; }; [ "$c$r" = 84 ] && echo "$var $mk sumsq $(cat b.err) bytes $(stat -c %s b.bin)"; done; done; done; done; echo cases $n differ $bad
