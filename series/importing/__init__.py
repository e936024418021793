"""Turning other people's patches (a folder, an mbox, a git range, a quilt series) into a topic."""
