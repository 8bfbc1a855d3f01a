"""Takes secrets out of a line before anybody sees it: SGLang prints its keys at every start."""

from __future__ import annotations

import re

MASK = "***"

_QUOTED = re.compile(
    r"""(?P<name>(?:api_?key|apikey|access_?token|auth_?token|secret|password)['"]?"""
    r"""\s*[:=]\s*)"""
    r"""(?P<value>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""",
    re.IGNORECASE,
)
"""`'api_key': 'x'`, `"admin_api_key":"x"`, `api_key='x'` of a repr, a dict or JSON.

What stands before the word stays in the line anyway: looked for as a word, it would cost the square
of a long word's length, and a line may hold a whole picture in base64.
"""
_BARE = re.compile(
    r"(?P<name>(?:(?i:api_?key|access_?token|auth_?token|secret|password)\s*[=:]|(?<=[A-Z_])_TOKEN=)"
    r"\s*)(?P<value>[^\s'\",;)}\]]+)"
)
"""`OPENAI_API_KEY=x`, `HF_TOKEN=x`, `api_key: x`."""
_FLAG = re.compile(
    r"(?P<name>--(?:\w+-)*(?:api-?key|access-?token|auth-?token|secret|password)"
    r"(?:\s*[=\s]\s*|['\"],\s*))"
    r"""(?P<value>'[^']*'|\\?"[^"]*"|[^\s'",]+)""",
    re.IGNORECASE,
)
"""`--api-key x`, `--api-key=x`, `'--api-key', 'x'` of an argument string or list."""
_BEARER = re.compile(r"(?P<name>\bBearer\s+)(?P<value>[^\s'\",]+)", re.IGNORECASE)
_LAUNCH = re.compile(
    r"""(?P<name>['"]launch_command['"]\s*:\s*)(?P<value>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
)
"""The whole command line once more, in a spelling nobody promises to keep: masked entirely."""
_HINTS = ("key", "token", "secret", "password", "bearer", "launch_command")


def redact(line: str) -> str:
    """The line with keys, tokens and the repeated command line masked; anything else as it was."""
    lower = line.lower()
    if not any(hint in lower for hint in _HINTS):
        return line
    line = _LAUNCH.sub(_quoted, line)
    line = _QUOTED.sub(_quoted, line)
    line = _FLAG.sub(_bare, line)
    line = _BARE.sub(_bare, line)
    return _BEARER.sub(_bare, line)


def _quoted(match: re.Match[str]) -> str:
    value = match["value"]
    if len(value) <= 2:
        return match[0]
    return f"{match['name']}{value[0]}{MASK}{value[-1]}"


def _bare(match: re.Match[str]) -> str:
    value = match["value"]
    if value in ("None", "null", MASK) or not value.strip("'\"\\"):
        return match[0]
    if value[0] in "'\"":
        return f"{match['name']}{value[0]}{MASK}{value[0]}"
    return f"{match['name']}{MASK}"
