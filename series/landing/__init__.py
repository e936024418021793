"""Whether upstream has what a patch does: patch-id, hunks, the plain tree."""
