"""What runs before anything is installed: the environments and the launcher. Stdlib only."""
