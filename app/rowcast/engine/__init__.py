"""Floor 3: the door. Every read, write and watch of every protocol passes through the Engine."""
