"""Several writes at any topics in one transaction."""
