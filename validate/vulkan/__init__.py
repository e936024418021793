"""Every step on a Vulkan device, a software one where the machine has no GPU."""
