"""What AMD's shader compilers say about every pipeline of a step, on a machine without the GPU.

Recipes and limits: docs/how-to/check-shaders.md.
"""
