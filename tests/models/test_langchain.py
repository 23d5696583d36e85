"""The adapter over LangChain's own models, without a provider."""

from __future__ import annotations

import importlib.util

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from hive_agents.base.errors import HiveError
from hive_agents.models import Message, ModelError
from hive_agents.models.langchain import LangChainModel, open_langchain

ASK = [Message(role="user", content="Is it good?")]


def answering(*answers: object) -> LangChainModel:
    return LangChainModel("fake:x", GenericFakeChatModel(messages=iter(answers)))  # type: ignore[arg-type]


async def test_a_model_without_tools_answers_in_json() -> None:
    answer = AIMessage('{"ok": true}', usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5})
    result = await answering(answer).complete(ASK, schema={"type": "object", "required": ["ok"]}, deadline=5)
    assert result.structured == {"ok": True}
    assert (result.usage.input_tokens, result.usage.usd, result.usage.priced) == (3, 0.0, False)


async def test_zeros_are_no_count() -> None:
    answer = AIMessage("good", usage_metadata={"input_tokens": 0, "output_tokens": 0, "total_tokens": 0})
    usage = (await answering(answer).complete(ASK, deadline=5)).usage
    assert (usage.input_tokens, usage.priced) == (0, False)


class TooManyRequests(Exception):
    status_code = 429


class Unauthorized(Exception):
    status_code = 401


class ReadTimeout(Exception):
    pass


class Raising(GenericFakeChatModel):
    error: Exception

    def _generate(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
        raise self.error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TooManyRequests("slow down"), "throttling"),
        (Unauthorized("who?"), "authentication"),
        (ReadTimeout("late"), "timeout"),
        (TimeoutError(), "timeout"),
        (ConnectionRefusedError("nobody"), "server"),
        (KeyError("choices"), "garbage"),
    ],
)
async def test_errors_of_providers_have_kinds(error: Exception, kind: str) -> None:
    model = LangChainModel("fake:x", Raising(messages=iter([]), error=error))
    with pytest.raises(ModelError) as caught:
        await model.complete(ASK, deadline=5)
    assert caught.value.kind == kind


async def test_a_fault_of_the_program_is_not_called_a_failing_model() -> None:
    model = LangChainModel("fake:x", Raising(messages=iter([]), error=AssertionError("bug")))
    with pytest.raises(AssertionError):
        await model.complete(ASK, deadline=5)


@pytest.mark.skipif(importlib.util.find_spec("langchain") is not None, reason="langchain is installed")
def test_a_provider_that_is_not_installed_says_what_to_install() -> None:
    with pytest.raises(HiveError, match=r"pip install \"hive-agents\[openai\]\""):
        open_langchain("openai:gpt-x", 5)
