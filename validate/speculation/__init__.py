"""What each drafter and draft length is worth, measured with real llama-server processes."""
