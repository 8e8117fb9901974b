"""Features.

Each folder attaches one behaviour to the kernel; it imports the kernel and below.
"""
