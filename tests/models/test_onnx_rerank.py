"""A cross-encoder by path, with a small one that is made here: its score is the text's highest token."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from hive_agents import HiveError, Workspace
from hive_agents.models.embedding.minilm_graph import FLOAT, INT64, write_model
from hive_agents.models.embedding.providers import Reranker, open_reranker
from hive_agents.workspace.trusted import trust

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "train", "lamp", "water", "cactus", "month")


def make_cross_encoder(folder: Path, *, classes: int = 1) -> None:
    folder.mkdir(parents=True)
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    model = write_model(
        [
            ("Mul", ["input_ids", "token_type_ids"], ["second"], "", {}),
            ("Cast", ["second"], ["numbers"], "", {"to": FLOAT}),
            ("ReduceMax", ["numbers"], ["best"], "", {"axes": [1], "keepdims": 1}),
            ("Neg", ["best"], ["worst"], "", {}),
            ("Concat", ["worst", "best"], ["both"], "", {"axis": 1}),
        ],
        {},
        inputs=dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (INT64, ("n", "t"))),
        outputs={"best" if classes == 1 else "both": (FLOAT, ("n", classes))},
        opsets={"": 13},
    )
    (folder / "model.onnx").write_bytes(model)


def reranker_of(root: Path, name: str = "onnx:models/small") -> Reranker:
    (root / "collections").mkdir(parents=True, exist_ok=True)
    (root / "hive.toml").write_text(f'[models]\nreranker = "{name}"\n')
    trust(Workspace(root))
    reranker = open_reranker(Workspace(root))
    assert reranker is not None
    return reranker


@pytest.mark.parametrize("classes", [1, 2])
def test_texts_are_scored_in_their_order_whatever_their_length(tmp_path: Path, classes: int) -> None:
    make_cross_encoder(tmp_path / "models" / "small", classes=classes)
    reranker = reranker_of(tmp_path)
    texts = ["a lamp", "water the cactus once a month " * 200, "", "a train", *["water"] * 40]
    assert reranker.relevance("how to water a cactus", texts) == [5.0, 8.0, 3.0, 4.0, *[6.0] * 40]
    assert reranker.relevance("anything", []) == []


def test_the_model_has_the_name_of_its_files(tmp_path: Path) -> None:
    make_cross_encoder(tmp_path / "models" / "small")
    make_cross_encoder(tmp_path / "models" / "other", classes=2)
    one, same, other = (reranker_of(tmp_path, f"onnx:models/{name}").model_id for name in ("small", "small", "other"))
    assert (one == same, one == other) == (True, False)


def test_files_that_are_missing_or_are_no_model_are_told(tmp_path: Path) -> None:
    with pytest.raises(HiveError, match=r"no model\.onnx"):
        reranker_of(tmp_path)
    make_cross_encoder(tmp_path / "models" / "small")
    (tmp_path / "models" / "small" / "model.onnx").write_bytes(b"no model")
    with pytest.raises(HiveError, match="cannot be used") as caught:
        reranker_of(tmp_path).relevance("a", ["b"])
    assert caught.value.exit_code == 3


def test_without_the_extra_a_reranker_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_cross_encoder(tmp_path / "models" / "small")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(HiveError, match="HIVE-411") as caught:
        reranker_of(tmp_path).relevance("a", ["b"])
    assert caught.value.diagnostics[0].fix == 'pip install "hive-agents[rerank]"'
