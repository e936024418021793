"""What clang makes of ggml-cuda's kernels for Strix Halo: the HIP half of `nox -s isa`.

The device code alone is compiled; nothing is linked, nothing is executed.
"""
