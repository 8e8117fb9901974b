"""Accounts: users and roles as rows, and Mosquitto's dynamic security API for them."""
