"""Login: authentication of requests, and the routes of signing in."""
