"""Every command and snippet of README and docs runs as it stands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from .blocks import Block, blocks_in, blocks_of, pages, text_outside_blocks
from .player import COMMAND, INDENTED, Player, commands_in
from .prepared import PREPARED

RUN = ("python", "pycon", "sh", "console")
KNOWN = (*RUN, "toml", "text")


def is_directive(block: Block) -> bool:
    return block.language.startswith("{")


def with_blocks() -> list[str]:
    return [page for page in pages() if any(block.language in RUN for block in blocks_of(page))]


@pytest.mark.parametrize("page", with_blocks())
def test_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page in PREPARED:
        PREPARED[page](tmp_path, monkeypatch)
    player = Player(tmp_path)
    for block in blocks_of(page):
        if not block.reason and not is_directive(block):
            player.play(block)
    _close_figures()


def _close_figures() -> None:
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.parametrize("page", pages())
def test_blocks_say_what_they_are(page: str) -> None:
    """A command cannot hide from the test above in a block of another kind."""
    for block in blocks_of(page):
        assert is_directive(block) or block.language in KNOWN, f"{block.where}: {block.language!r}"
        assert block.language != "text" or not COMMAND.search(block.text), f"{block.where}: a command as text"


@pytest.mark.parametrize("page", pages())
def test_commands_are_in_fences(page: str) -> None:
    """Blocks made by indenting are not run."""
    outside = text_outside_blocks(page)
    assert not INDENTED.search(outside), page


def test_few_blocks_are_left_alone_and_each_says_why() -> None:
    alone = [block for page in pages() for block in blocks_of(page) if block.reason]
    assert all(len(block.reason) > 20 for block in alone)
    assert len(alone) <= 14, [block.where for block in alone]


def test_the_tests_have_teeth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bad = (
        "```python\nassert 1 == 2\n```\n"
        "```pycon\n>>> 1 + 1\n3\n```\n"
        "```sh\nfalse\n```\n"
        "```console\n$ echo one\ntwo\n```\n"
        "```toml\nx = \n```\n"
        "```sh\ndpcape no-such-command\n```\n"
    )
    blocks = blocks_in(bad, "bad.md")
    assert len(blocks) == 6
    for block in blocks:
        with pytest.raises((AssertionError, ValueError)):
            Player(tmp_path).play(block)


def test_blocks_share_folder_variables_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    good = (
        "<!-- file: a.toml -->\n```toml\nx = 1\n```\n"
        "<!-- hidden sh\nexport SITE=lyon; OTHER=oslo\n-->\n"
        "```console\n$ cat a.toml\nx = 1\n$ echo $SITE \\\n> $OTHER\nlyon ...\n```\n"
        "```python\nx = 2\n```\n```pycon\n>>> x\n2\n```\n"
        "<!-- not run: for a reason that is long enough -->\n```sh\nfalse\n```\n"
    )
    blocks = blocks_in(good, "good.md")
    assert [bool(block.reason) for block in blocks] == [False] * 5 + [True]
    player = Player(tmp_path)
    for block in blocks[:-1]:
        player.play(block)
    assert commands_in("$ a\n> b\nc\n$ d\n") == [("a\nb", "c\n"), ("d", "")]
