"""The texts of an agent's prompts: their files, their variables, and secrets that they may contain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from string import Template
from typing import TYPE_CHECKING

from hive_agents.agents.spec import AgentSpec, NodeSpec
from hive_agents.base import HiveError, bundled, closest, cut
from hive_agents.models import prompts

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

VARIABLES = frozenset({"agent", "goal", "inputs", "outputs", "today", "fence"})
"""Variables of every prompt, besides the node's input keys."""

_FILE = re.compile(r"prompts/(?P<name>[a-z0-9][a-z0-9._-]{0,63})\.md")
_PATH = re.compile(r"[\w.:~-]+\.md|[\w.:~-]*[/\\][\w.:~/\\-]*")
"""What is meant as a file: one word with a folder, or ending in .md."""
_OUTSIDE = re.compile(r"^[/\\~]|^[A-Za-z]:|(?:^|[/\\])\.\.(?:[/\\]|$)")
# Every repetition is bounded, so that matching takes linear time however long the prompt is.
_SECRETS = {
    "a reference to a credential": r"\b(?:credential|keyring|aws|env):[A-Za-z0-9_]",
    "a private key": r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----",
    "a key of AWS": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "an access token": r"\b(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AIza|hf_|npm_)[A-Za-z0-9_-]{16,256}",
    "a signed token": r"\beyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,2000}\.",
    "a password in an address": r"\b[a-z][a-z0-9+.-]{0,20}://[^/\s:@]{1,200}:[^/\s@]{1,200}@",
    "what looks like a secret": (
        r"(?i)\b(?:pass(?:word|phrase)?|secret|token|api[_ -]?key|access[_ -]?key|authorization)\b"
        r"[\"']?\s{0,5}(?:[:=]|\bis\b)\s{0,5}[\"'`]?(?:bearer\s{1,5}|basic\s{1,5})?(?=[^\s\"'`]{0,200}[0-9])[^\s\"'`$]{8,200}"
    ),
}


@dataclass(frozen=True)
class PromptText:
    """`path` is its field in the agent; `file` is None where the agent contains the text itself."""

    path: tuple[str | int, ...]
    text: str
    variables: frozenset[str]
    file: str | None = None


@dataclass(frozen=True)
class UnreadPrompt:
    """Why the prompt at `path` of the agent can't be read."""

    path: tuple[str | int, ...]
    error: HiveError


def file_of(prompt: str, workspace: Workspace | None) -> str | None:
    """Return the name of the prompt's file; None for a text.

    Raises: HIVE-107 for the name of a missing file, HIVE-114 for one outside of prompts/.

    >>> file_of("prompts/judge.md", None), file_of("Judge the work.", None)
    ('judge', None)
    """
    if not _PATH.fullmatch(prompt) or secrets_in(prompt):
        return None
    match, names = _FILE.fullmatch(prompt), _names(workspace)
    if match is not None and match["name"] in names:
        return match["name"]
    shown = cut(prompt, 80)
    if _OUTSIDE.search(prompt):
        fix = "name a file that lies in prompts/, as prompts/NAME.md"
        raise HiveError.of("HIVE-114", f'the prompt "{shown}" leads outside prompts/', fix=fix)
    guess = closest(re.split(r"[/\\]", prompt)[-1].removesuffix(".md"), names)
    fix = f'did you mean "prompts/{guess}.md"?' if guess else "write that file, or a prompt of several words"
    raise HiveError.of("HIVE-107", f'there is no prompt "{shown}"', fix=fix)


def filled(prompt: str, workspace: Workspace | None, **variables: str) -> str:
    """Return the prompt with its variables substituted once: a `$` in a value stays as it is.

    Raises: as `file_of`, HIVE-106 for a variable that was not given, HIVE-105 for a stray `$`.

    >>> filled("Write about $topic.", None, topic="$bees")
    'Write about $bees.'
    """
    name = file_of(prompt, workspace)
    if name is not None:
        return prompts.load(name, workspace, **variables)
    for missing in undeclared(PromptText((), prompt, frozenset(variables))):
        code = "HIVE-105" if missing == "$" else "HIVE-106"
        message = (
            "a $ stands before no variable" if missing == "$" else f"the prompt asks for ${missing}, which is not given"
        )
        raise HiveError.of(code, message, fix="use the variables there are, and $$ for a dollar sign")
    return Template(prompt).substitute(variables)


def declared(node: NodeSpec) -> frozenset[str]:
    """Return the variables that the node's prompt may use."""
    return VARIABLES | set(node.input_keys)


def prompt_texts(agent: AgentSpec, workspace: Workspace | None) -> Iterator[PromptText | UnreadPrompt]:
    """Yield each prompt of the agent, or why it can't be read."""
    named: list[tuple[tuple[str | int, ...], str, frozenset[str]]] = [(("identity",), agent.identity, VARIABLES)]
    named += [(("nodes", n, "system_prompt"), node.system_prompt, declared(node)) for n, node in enumerate(agent.nodes)]
    for path, prompt, variables in named:
        try:
            name = file_of(prompt, workspace)
            text = prompt if name is None else prompts.template(name, workspace)
            yield PromptText(path, text, variables, f"prompts/{name}.md" if name else None)
        except HiveError as error:
            yield UnreadPrompt(path, error)


def _names(workspace: Workspace | None) -> list[str]:
    folders = [bundled("prompts"), *([] if workspace is None else [workspace.root / "prompts"])]
    return sorted({path.stem for folder in folders for path in folder.glob("*.md") if path.is_file()})


def undeclared(prompt: PromptText) -> list[str]:
    """Return the variables that aren't filled in, and "$" for a `$` before no variable."""
    template = Template(prompt.text)
    return sorted(set(template.get_identifiers()) - prompt.variables) + ([] if template.is_valid() else ["$"])


def secrets_in(text: str) -> list[tuple[str, int]]:
    """Return (kind, line) of everything that may be a secret, without the secret itself.

    >>> secrets_in("Log in with the password: hunter2000")
    [('what looks like a secret', 1)]
    >>> secrets_in("Never ask for a password or an API key.")
    []
    """
    return [
        (kind, text.count("\n", 0, match.start()) + 1)
        for kind, pattern in _SECRETS.items()
        for match in re.finditer(pattern, text)
    ]
