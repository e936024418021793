# The project's own judge on what run2.sh built: confirm2.sh [SECONDS]. Two models on two GPUs, each with a lab of its own;
# tip (both candidates) against b11549 and that against b10566, both sizes, KHR path; every sample is kept: run again to go on.
. /tmp/k/wait.sh
S=${1:-570}; KEEP=/tmp/b/keep; export PYTHONPATH=/tmp/site:$KIT/repo
judge() { # GPU MODEL
  cd $KIT/repo && LAB_DIR=/tmp/lab-$2 taskset -c $(( 8 * $1 ))-$(( 8 * $1 + 7 )) python3 -m validate.prefill --model /tmp/m/$2.gguf \
    --prebuilt b10566=$KEEP/b10566 --prebuilt b11549=$KEEP/head --prebuilt candidates=$KEEP/ab --device Vulkan$1 --path khr \
    --prompts 2048 --ubatches 512,2048 --looks 10,14 -t 4 --limit 120 --budget $(( $(left $S) - 60 )) --json --report /tmp/o/prefill-$2.html \
    > /tmp/o/prefill-$2.json 2> /tmp/o/prefill-$2.err
  el "$2 ended with $?"
}
judge 0 moe-128 & judge 1 moe-512 & wait
for m in moe-128 moe-512; do LAB_DIR=/tmp/lab-$m python3 -m validate samples > /tmp/o/samples-$m.jsonl; tail -3 /tmp/o/prefill-$m.err; done
cp -f /tmp/o/prefill-* /tmp/o/samples-moe-* $OUT/; el done
