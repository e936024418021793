"""Every step of the stack built, run and judged against its parent."""
