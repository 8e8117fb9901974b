"""An object store on loopback: moto's server, and the variables by which AWS's clients find it."""

import json
import logging
import subprocess
import sys
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import boto3
from moto import backends
from moto.core import serialize
from moto.server import ThreadedMotoServer

SERVICES = list(backends.list_of_moto_modules())
backends.list_of_moto_modules = lambda: SERVICES
"""Else it lists its folders, and looks at each, for every request: a tenth of its time."""
serialize.parse_to_aware_datetime = lru_cache(10_000)(serialize.parse_to_aware_datetime)
"""Else it guesses the form of the time of each object in each list: half of the time of a list."""
BUCKET = "lake"
KEY, SECRET = "AKIAROWCASTTEST", "s3cr3t-of-the-store"


@contextmanager
def object_store(port=0):
    """Run a store with one bucket; yield the variables that name it.

    All stores of a process have the same objects: one that ended is there again at its ``port``.
    """
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        client = boto3.client(
            "s3", endpoint_url=url, region_name="eu-west-1",
            aws_access_key_id=KEY, aws_secret_access_key=SECRET,
        )  # fmt: skip
        if not client.list_buckets()["Buckets"]:  # all servers of a process have the same buckets
            place = {"LocationConstraint": "eu-west-1"}
            client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place)
        client.close()
        yield {
            "AWS_ENDPOINT_URL": url, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true",
        }  # fmt: skip
    finally:
        server.stop()


@contextmanager
def separate_object_store():
    """Run a store in a process of its own: delta-rs holds Python's lock while it waits for one."""
    words = [sys.executable, "-c", "import object_store; object_store.serve_until_closed()"]
    process = subprocess.Popen(
        words, cwd=Path(__file__).parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


def serve_until_closed():
    """Run a store, tell its variables, and end when the standard input is closed."""
    with object_store() as variables:
        sys.stdout.write(json.dumps(variables) + "\n")
        sys.stdout.flush()
        sys.stdin.read()
