"""Packets: the translation of each packet to the kernel's verbs."""
