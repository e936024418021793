# Sourced: the environment of a call, and wait_for NAME SECONDS.
export KIT=/tmp/k W=/tmp/b PYTHONUNBUFFERED=1
export VK_DRIVER_FILES=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
export __EGL_VENDOR_LIBRARY_FILENAMES=/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json
T0=$(date +%s); mkdir -p /tmp/o /tmp/b
el() { echo "[$(( $(date +%s) - T0 )) s] $*"; }
left() { echo $(( ${1:-580} - ($(date +%s) - T0) )); }
wait_for() { for i in $(seq $2); do [ -e $W/done/$1 ] && return 0; sleep 1; done; el "$1 is not there"; return 1; }
# what came so far, at most 8 files
save() {
  cp -f /tmp/o/{samples-0,samples-1,quads,planted}.jsonl /tmp/o/machine.txt $OUT/ 2>/dev/null
  cat /tmp/o/numerics-*.jsonl > $OUT/numerics.jsonl 2>/dev/null
  tar cf - -C /tmp/o . 2>/dev/null | gzip > $OUT/logs.tar.gz
}
