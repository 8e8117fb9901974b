"""The kernel. Every read, write and watch of every protocol goes through it."""
