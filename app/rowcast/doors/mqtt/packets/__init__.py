"""Packets: what a client asks for with each, in the kernel's words."""
