"""Schema proposal: types of undeclared topics, inferred from their traffic."""
