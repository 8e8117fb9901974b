"""Who may do what: one policy, asked for every verb of every door."""
