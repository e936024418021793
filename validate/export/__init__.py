"""Topics as branches that a person can send upstream: rebuilt alone, judged, with the evidence.

Everything stays on this machine; nothing here pushes or posts.
"""
