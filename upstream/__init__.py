"""Exact upstream llama.cpp source: where it comes from and the private repository that holds it."""
