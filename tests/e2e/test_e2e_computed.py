"""Computed attributes of a whole server with its own code, and of its workers (A9)."""

import json
import re

import pytest

from serving import Server, wait_until
from talking import Mqtt

SCHEMA = """
type Order @table @export @alarm(name: "large", when: "total=gt=100") {
  id: ID @primaryKey
  price: Float
  quantity: Int
  total: Float @computed(from: "price * quantity")
  size: String @computed
}
"""
CODE = """
from rowcast import Resource, computed

class Order(Resource):
    @computed
    def size(order):
        return "large" if order["quantity"] > 10 else "small"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed")
    (folder / "code").mkdir()
    (folder / "code" / "orders.py").write_text(CODE)
    given = {"workers.count": 1, "workers.http_port": 0, "workers.mqtt_port": 0}
    with Server(folder, SCHEMA, folder / "code", given) as running:
        yield running


def test_a9_rest_mqtt_and_workers_tell_the_same(server):
    with Mqtt(server.mqtt_port) as client:
        client.subscribe("Order/+", qos=1)
        client.publish("Order/1", b'{"price": 2.5, "quantity": 20}', qos=1, retain=True)
        heard = json.loads(client.message().payload)
    wanted = {"id": "1", "price": 2.5, "quantity": 20, "total": 50.0, "size": "large"}
    assert wanted == heard == server.request("GET", "/Order/1").json()
    port = re.search(r"  1 workers? +http://[\d.]+:(\d+)/", server.log)[1]

    def of_worker(path):
        with server.client() as client:
            return client.get(f"http://127.0.0.1:{port}{path}")

    wait_until(lambda: of_worker("/Order/1").status_code == 200, "a worker has the record")
    assert wanted == of_worker("/Order/1").json()
    assert [wanted] == of_worker("/Order/?size=large&total=gt=1").json()


def test_a9_an_alarm_compares_a_computed_value(server):
    def state():
        return server.request("GET", "/$SYS/alarms/large/Order/2").json().get("state")

    for quantity, wanted in ((100, "raised"), (1, "cleared")):
        body = {"price": 2.0, "quantity": quantity}
        assert server.request("PUT", "/Order/2", json=body).is_success
        wait_until(lambda wanted=wanted: state() == wanted, wanted)
