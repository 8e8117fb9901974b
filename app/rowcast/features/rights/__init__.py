"""Rights: one policy, checked for every verb of every door."""
