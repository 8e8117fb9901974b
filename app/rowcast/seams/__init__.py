"""The seams: what the kernel asks features, and what it does or refuses without them."""
