"""A local collection in a page, over its WebSocket (M3)."""

import pytest

from serving import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.slow]
BEGIN = """async () => {
  const { Rowcast } = await import('/ui/rowcast.js')
  const { Collection } = await import('/ui/collection.js')
  window.numbers = new Collection(new Rowcast(), 'Counter', 'n=gt=10', {
    compare: (one, other) => other.n - one.n,
  })
  await numbers.ready
  return numbers.rows
}"""
REFUSED = """async () => {
  const write = numbers.patch('a', { n: 'many' })
  const shown = numbers.get('a').n
  const problem = await write.catch((problem) => problem)
  return [shown, problem.status, numbers.get('a').n]
}"""
LOST = """async () => {
  const { ws } = numbers.client.socket
  ws.onmessage = null // what the server answers is lost
  const writes = [1, 2, 3].map((n) => numbers.patch('lost', { n: 10 + n }))
  while ((await numbers.client.get('Counter/lost')).value.n < 11) await new Promise(setTimeout)
  ws.close()
  const outcomes = await Promise.all(writes)
  while (numbers.get('lost')?.n !== 13) await new Promise(setTimeout) // its events come later
  return [numbers.get('lost').n, outcomes.map((one) => one.status)]
}"""


def test_m3_a_page_keeps_a_collection(opened, server):
    """M3: in its own order, with a write that is taken back and one that stays."""
    for name, n in (("a", 11), ("b", 12), ("c", 1)):
        server.request("PUT", f"/Counter/{name}", json={"n": n})
    page = opened("topics")
    assert ["b", "a"] == [row["id"] for row in page.evaluate(BEGIN)]
    server.request("PATCH", "/Counter/c", json={"n": 30})
    wait_until(lambda: "c" == page.evaluate("numbers.rows[0].id"), "the record")
    assert ["many", 422, 11] == page.evaluate(REFUSED)
    assert "d" == page.evaluate("numbers.create({ id: 'd', n: 40 })")
    assert 40 == server.request("GET", "/Counter/d").json()["n"]
    wait_until(lambda: [] == page.evaluate("numbers.pending"), "its event")
    assert ["d", "c", "b", "a"] == page.evaluate("numbers.rows.map((row) => row.id)")


def test_m3_its_writes_go_over_the_websocket_and_survive_it(opened, server):
    """M3: no request is made; what had no answer is sent again, and done once."""
    server.request("PUT", "/Counter/lost", json={"n": 10})
    page = opened("topics")
    page.evaluate(BEGIN)
    asked = []
    page.on("request", lambda one: asked.append(one.method))
    assert [13, [204, 204, 204]] == page.evaluate(LOST)
    assert {"GET"} == set(asked)
    events = server.request("GET", "/Counter/lost?last=10").json()
    assert [10, 11, 12, 13] == [event["value"]["n"] for event in events]
