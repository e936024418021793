"""GGUF files of published tensor shapes with random, valid blocks: real kernels, no real model."""
