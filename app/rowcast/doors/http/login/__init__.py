"""The entrance: who a request comes from, and where somebody signs in."""
