"""The faster parser finds what the library's own finds."""

import random
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from hive_agents.retrieval.block_parsing import block_parser
from hive_agents.sample import init_workspace

LINES = """
words go on
    indented
# heading
#no heading
===
---
- item
* item
+
1. first
2) second
10. tenth
> quote
```
~~~
<div>
</div>
<!-- note -->
| a | b |
a | b
--- | ---
|---|---|
:--|--:
[label]: /there
\tword
***
_ _ _
`code`
  - nested
   three blanks
""".strip("\n").split("\n")


def plain() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table").disable("inline")


def tokens(parser: MarkdownIt, text: str) -> list[object]:
    return [token.as_dict() for token in parser.parse(text)]


@pytest.mark.parametrize("seed", range(8))
def test_any_mixture_of_lines_gives_the_same_tokens(seed: int) -> None:
    dice, own = random.Random(seed), plain()
    for _ in range(100):
        text = "\n".join(dice.choice([*LINES, "", "words"]) for _ in range(dice.randint(1, 12)))
        assert tokens(block_parser(), text) == tokens(own, text), text


def test_the_samples_documents_give_the_same_tokens(tmp_path: Path) -> None:
    own = plain()
    for path in sorted((init_workspace(tmp_path / "sample") / "documents").rglob("*.md"))[:40]:
        text = path.read_text("utf-8")
        assert tokens(block_parser(), text) == tokens(own, text), path.name
