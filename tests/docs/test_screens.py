"""The screens in the pages show what the commands show."""

from __future__ import annotations

from tests.docs.screens import COMMANDS, IMAGES, picture, shown, stage, words


def test_screens_are_what_the_commands_show() -> None:
    with stage() as hosts:
        for name, command in COMMANDS.items():
            stored = words((IMAGES / f"{name}.svg").read_text("utf-8"))

            assert words(picture(name, command, shown(hosts, command))) == stored, (
                "run python -m tests.docs.screens"
            )


def test_every_screen_is_on_a_page() -> None:
    page = (IMAGES.parent / "reference" / "cli.md").read_text("utf-8")

    assert {f"{name}.svg" for name in COMMANDS} == {path.name for path in IMAGES.iterdir()}
    assert all(f"(../images/{name}.svg)" in page for name in COMMANDS)
