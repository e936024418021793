"""Prompt processing at real shapes: upstream's versions, every step and the tip, side by side."""
