"""Doors. Each translates a protocol into the kernel's verbs and decides nothing."""
