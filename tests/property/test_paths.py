"""Any text can be a segment, and every path has one spelling."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from zkcoord._core.paths import normalize, parent, quote, unquote
from zkcoord.errors import ConfigError

# Lone surrogates included, and what is special to us more often than chance would have it.
texts = st.one_of(
    st.text(max_size=30),
    st.text(st.characters(categories=("Cs", "Co", "Cc", "Lu")), max_size=8),
    st.text("%./2EF\x00a\ud83d\ude00😀", max_size=8),
)


@settings(max_examples=500, deadline=None)
@given(texts)
def test_quote_is_undone_by_unquote(text):
    assert text == unquote(quote(text))


@settings(max_examples=500, deadline=None)
@given(texts, texts)
def test_different_texts_have_different_segments(first, second):
    assert (first == second) == (quote(first) == quote(second))


@settings(max_examples=500, deadline=None)
@given(texts)
def test_a_quoted_text_is_one_segment_of_a_path(text):
    path = f"/locks/{quote(text)}"

    assert path == normalize(path)
    assert "/locks" == parent(path)


@settings(max_examples=500, deadline=None)
@given(texts)
def test_unquote_accepts_only_what_quote_makes(segment):
    try:
        text = unquote(segment)
    except ConfigError:
        return

    assert segment == quote(text)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(["", "a", "b c", "ä", "..."]), texts), max_size=5), st.booleans())
def test_normalize_is_idempotent_and_refuses_or_accepts_every_spelling_alike(segments, is_absolute):
    path = "/" * is_absolute + "/".join(segments)
    try:
        normal = normalize(path)
    except ConfigError:
        for spelling in (f"/{path}", f"{path}/", path.replace("/", "//")):
            with pytest.raises(ConfigError):
                normalize(spelling)
        return

    assert normal == normalize(normal) == normalize(f"//{path}//") == normalize(path.replace("/", "//"))
    assert [segment for segment in path.split("/") if segment] == normal.split("/")[1:]


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(max_codepoint=0x10FFFF), min_size=1, max_size=4))
def test_only_characters_of_the_basic_plane_outside_zookeepers_ranges_pass(text):
    assume("/" not in text and text not in (".", ".."))
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    refused = any(
        unit <= 0x1F or 0x7F <= unit <= 0x9F or 0xD800 <= unit <= 0xF8FF or 0xFFF0 <= unit for unit in units
    )

    try:
        normalize(text)
    except ConfigError:
        assert refused
    else:
        assert not refused
