"""The evidence that upstream asks for a quantisation type, beside the types of its size.

nox -s quant-evidence     size, perplexity, KL divergence, CPU speed, weight error
"""
