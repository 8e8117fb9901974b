"""Packets: what a client asks for with each, in the engine's words."""
