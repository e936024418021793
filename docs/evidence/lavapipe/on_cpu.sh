# on_cpu.sh BIN QUANTISED CORPUS TYPE...: what 8-bit activations cost on upstream's CPU backend, for comparison.
# BIN: llama-perplexity and llama-quantize, built for the CPU; QUANTISED holds TYPE.gguf. For each type two lines of
# figures, each of the file against the same weights in F32 (float activations):
#   own    the file as it is: activations in Q8_0 (blocks of 32, as q8_1) or Q8_K (blocks of 256), as its type takes them
#   Q8_0   its weights written as Q8_0: activations in Q8_0 whatever the type was
set -e
bin=$1 models=$2 corpus=$3; shift 3
export LD_LIBRARY_PATH=$bin
work=$(mktemp -d)
same="-f $corpus -c 128 -b 128 --chunks 2 -t 1 -fa off --no-warmup --kl-divergence-base $work/logits"
compare() { # NAME FILE
  $bin/llama-quantize --allow-requantize $2 $work/f32.gguf F32 1 > $work/log 2>&1
  $bin/llama-perplexity -m $work/f32.gguf $same > $work/log 2>&1
  $bin/llama-perplexity -m $2 $same --kl-divergence 2>&1 |
    grep -E '^(Mean PPL\(base\)|Mean +KLD|99.9% +KLD|Maximum KLD|Same top p)' | sed "s/^/$1 /"
}
for type; do
  compare "$type own" $models/$type.gguf
  $bin/llama-quantize --pure $work/f32.gguf $work/q8_0.gguf Q8_0 1 > $work/log 2>&1
  compare "$type Q8_0" $work/q8_0.gguf
done
rm -r $work
