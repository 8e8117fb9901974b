"""What the tests of auth share: users in memory, a SCRAM client, and no waiting for threads."""

import asyncio
import hashlib
import hmac
from base64 import b64decode, b64encode

from rowcast.auth.passwords import Passwords
from rowcast.auth.users import User
from rowcast.auth.verifier import make_verifier
from rowcast.core.authentication_limits import PASSWORD_ITERATIONS_MIN
from rowcast.core.callers import ALL, Grants

SECRET = bytes(32)


def user(name, password="pencil", grants=ALL):
    """Return a user whose password costs as little as allowed."""
    salt = hashlib.sha256(name.encode()).digest()[:16]
    return User(name, grants, make_verifier(password, salt, PASSWORD_ITERATIONS_MIN))


def cheap_passwords(users, run=asyncio.to_thread):
    """Return a check of passwords to which a wrong name costs no more than a wrong password."""
    return Passwords(users, b"key", run, decoy_iterations=PASSWORD_ITERATIONS_MIN)


class MemoryUsers:
    """Users without a file; none at all are as if there was no file."""

    def __init__(self, *users):
        self.users = {user.name: user for user in users}
        self.roles = {}
        self.asked = []

    def add(self, user):
        self.users[user.name] = user

    @property
    def fresh(self):
        return True

    def look_ahead(self):
        return True

    async def secret(self):
        return SECRET if self.users else None

    @property
    def in_force(self):
        return bool(self.users)

    @property
    def kinds(self):
        users = self.users.values()
        return any(one.hashed is None for one in users), any(one.hashed for one in users)

    def known(self, name):
        return self.users.get(name)

    async def find(self, name):
        self.asked.append(name)
        return self.known(name)


def ann_and_bob():
    """Return users: ann may do all, bob may read."""
    return MemoryUsers(user("ann", "pencil"), user("bob", "eraser", Grants(read=True)))


class ScramClient:
    """A client's side of SCRAM-SHA-256, written from RFC 5802 and not from the server's."""

    def __init__(self, name, password, nonce="rOprNGfwEbeRWgbNEkqO", header="n,,"):
        self.password = password
        self.nonce = nonce
        self.header = header
        self.bare = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}"

    @property
    def first(self):
        return f"{self.header}{self.bare}".encode()

    def final(self, server_first, **changes):
        facts = dict(part.split("=", 1) for part in server_first.decode().split(","))
        assert facts["r"].startswith(self.nonce)
        assert len(facts["r"]) > len(self.nonce)
        salted = hashlib.pbkdf2_hmac(
            "sha256", self.password.encode(), b64decode(facts["s"]), int(facts["i"])
        )
        header = b64encode(self.header.encode()).decode()
        unproved = f"c={changes.get('header', header)},r={changes.get('nonce', facts['r'])}"
        signed = f"{self.bare},{server_first.decode()},{unproved}".encode()
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self.server_proof = hmac.digest(
            hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256"
        )
        return f"{unproved},p={b64encode(proof).decode()}".encode()

    def trusts(self, server_final):
        """Tell whether the server has proved that it knows the user too."""
        return server_final == b"v=" + b64encode(self.server_proof)
