"""Paths: one spelling, what ZooKeeper refuses is refused here, and any text can be quoted."""

import pytest

from zkcoord._core.paths import MAX_PATH_BYTES, normalize, parent, quote, unquote
from zkcoord.errors import ConfigError


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/locks/a", "/locks/a"),
        ("locks/a", "/locks/a"),
        ("/locks/a/", "/locks/a"),
        ("//locks///a//", "/locks/a"),
        ("/a", "/a"),
        ("/...", "/..."),
        ("/a.b/..c", "/a.b/..c"),
        ("/with space/%", "/with space/%"),
        ("/grüße/鎖", "/grüße/鎖"),
        ("/\ud7ff\uf900\uffef", "/\ud7ff\uf900\uffef"),
        ("/ ~\xa0", "/ ~\xa0"),
    ],
)
def test_every_spelling_gives_the_one_path(path, normal):
    assert normal == normalize(path)


@pytest.mark.parametrize("path", ["", "/", "///"])
def test_an_empty_path_is_refused(path):
    with pytest.raises(ConfigError, match="path is empty: name the lock"):
        normalize(path)


@pytest.mark.parametrize(
    ("path", "segment"), [("/.", "'.'"), ("/a/../b", "'..'"), ("..", "'..'"), ("a/.", "'.'")]
)
def test_dot_segments_are_refused_with_advice(path, segment):
    with pytest.raises(ConfigError, match="has a ") as caught:
        normalize(path)

    assert segment in str(caught.value)
    assert "zkcoord.quote()" in str(caught.value)


@pytest.mark.parametrize(
    "character",
    list("\x00\x01\x1f\x7f\x9f\ud800\udfff\ue000\uf8ff\ufff0\uffff\U00010000\U0010ffff🔒"),
)
def test_characters_that_zookeeper_refuses_are_named_with_their_place(character):
    with pytest.raises(ConfigError, match="at 3, which ZooKeeper refuses") as caught:
        normalize(f"/ab{character}c")

    assert repr(character) in str(caught.value)
    assert "zkcoord.quote()" in str(caught.value)


@pytest.mark.parametrize("path", [None, 5, b"/a", ["/a"]])
def test_what_is_not_text_is_refused_naming_argument_and_type(path):
    with pytest.raises(ConfigError, match=f"where must be str, not {type(path).__name__}"):
        normalize(path, "where")


def test_the_length_limit_counts_bytes_of_the_normal_path():
    longest = "/" + "é" * ((MAX_PATH_BYTES - 1) // 2) + "x"

    assert MAX_PATH_BYTES == len(longest.encode())
    assert longest == normalize(longest + "//")
    with pytest.raises(
        ConfigError, match=f"path is {MAX_PATH_BYTES + 1} bytes long; at most {MAX_PATH_BYTES}"
    ):
        normalize(longest + "x")


@pytest.mark.parametrize(("path", "above"), [("/a", "/"), ("/a/b", "/a"), ("/a/b/c", "/a/b")])
def test_parent_is_the_path_above(path, above):
    assert above == parent(path)


@pytest.mark.parametrize(
    ("text", "segment"),
    [
        ("", "%"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("...", "..."),
        ("a/b", "a%2Fb"),
        ("100%", "100%25"),
        ("%", "%25"),
        ("%2F", "%252F"),
        ("ä b", "ä b"),
        ("\x00\n", "%00%0A"),
        ("🔒", "%F0%9F%94%92"),
        ("\ud83d", "%ED%A0%BD"),
        ("x\uffff", "x%EF%BF%BF"),
    ],
)
def test_quote_keeps_what_it_can_and_escapes_the_rest(text, segment):
    assert segment == quote(text)
    assert text == unquote(segment)


@pytest.mark.parametrize(
    "segment", ["", "a/b", ".", "..", "%2f", "%4", "%41", "%%", "%FF", "a%", "\x00", "%2E.", "🔒", "%25%"]
)
def test_unquote_refuses_what_quote_never_makes(segment):
    with pytest.raises(ConfigError, match=r"not made by zkcoord\.quote\(\)"):
        unquote(segment)


@pytest.mark.parametrize(("function", "name"), [(quote, "quote"), (unquote, "unquote")])
def test_quoting_takes_text_only(function, name):
    with pytest.raises(ConfigError, match=rf"{name}\(\) takes str, not bytes: b'a'"):
        function(b"a")
