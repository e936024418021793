"""The drift map: every patch against every known upstream version."""
