"""The files of the live page: served as they are, with headers that keep it to itself (O8)."""

import gzip
import re

import pytest

from asgi import asgi as made
from rowcast.doors.http.documents.pages import PAGES, ROOT


@pytest.fixture
async def world():
    async with made() as one:
        yield one


@pytest.mark.parametrize("path", sorted(PAGES))
async def test_each_file_is_sent_once_and_known_again(world, path):
    answer = await world.get(path)
    assert 200 == answer.status
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert "nosniff" == answer.headers["x-content-type-options"]
    assert 304 == (await world.get(path, if_none_match=answer.etag)).status
    assert b"" == (await world.head(path)).body


@pytest.mark.parametrize("form", ["W/{}", '"other", {}', "*", 'W/"other" , W/{}'])
async def test_a_file_is_known_again_by_a_list_of_etags(world, form):
    """RFC 9110, 13.1.2: a proxy that compresses makes them weak."""
    etag = (await world.get("/ui/app.js")).etag
    assert 304 == (await world.get("/ui/app.js", if_none_match=form.format(etag))).status
    assert 200 == (await world.get("/ui/app.js", if_none_match='W/"other"')).status


TAKEN = ["gzip", "br, gzip;q=0.5", "GZIP", "deflate,gzip;q=0.01,br"]
REFUSED = ["gzip;q=0", "br", "identity", "gzip;q=0.000, br", "gzippy"]


@pytest.mark.parametrize("encodings", TAKEN)
@pytest.mark.parametrize("path", ["/ui/", "/ui/rowcast.js"])
async def test_a_file_is_compressed_for_those_that_take_gzip(world, path, encodings):
    """RFC 9110 8.8.3, 12.5.3: each form has an ETag of its own."""
    plain, packed = await world.get(path), await world.get(path, accept_encoding=encodings)
    assert plain.body == gzip.decompress(packed.body)
    assert "gzip" == packed.headers["content-encoding"]
    assert "accept-encoding" == plain.headers["vary"] == packed.headers["vary"]
    assert plain.etag != packed.etag
    known = {"accept_encoding": encodings, "if_none_match": packed.etag}
    assert 304 == (await world.get(path, **known)).status
    assert 200 == (await world.get(path, if_none_match=packed.etag)).status


@pytest.mark.parametrize("encodings", REFUSED)
async def test_a_file_is_sent_as_it_is_to_others(world, encodings):
    answer = await world.get("/ui/app.js", accept_encoding=encodings)
    assert "content-encoding" not in answer.headers
    assert PAGES["/ui/app.js"][1] == answer.body


async def test_every_file_that_is_asked_for_is_there(world):
    """O8: the page loads nothing from elsewhere; modules and links name files that are served."""
    for path, (_, content, _) in PAGES.items():
        text = content.decode()
        named = re.findall(r"""(?:from|import) '\./([^']+)'|(?:src|href)="([^"#:]+)\"""", text)
        for name in (one or other for one, other in named):
            assert f"{ROOT}/{name}" in PAGES, f"{path} names {name}"


async def test_without_the_slash_it_leads_there(world):
    answer = await world.get("/ui")
    assert (308, "/ui/") == (answer.status, answer.headers["location"])


async def test_it_is_only_read_and_hides_no_other_topic(world):
    assert 405 == (await world.put("/ui/app.js", b"{}")).status
    assert 404 == (await world.get("/ui/other")).status
    assert 201 == (await world.put("/ui/other", b"1", content_type="application/json")).status
    assert 1 == (await world.get("/ui/other")).value
