"""The ordered stack of patches, and the engine that carries it between upstream versions."""
