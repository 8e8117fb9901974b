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
