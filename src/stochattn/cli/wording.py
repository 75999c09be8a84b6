"""Messages of the library in the words of the command line: what Python calls `beta=3` a user types as `--beta 3`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .kind_options import KindOptions, Shape

_OWN = {"condition": "--condition", "format": "--format", "generator": "--generator", "kind": "--kind", "n": "-n"}
_OWN |= {"n_jobs": "--jobs", "out": "-o", "replace": "--replace", "scheduler": "--scheduler", "seed": "--seed"}
"""Options of the commands themselves, by the names of the arguments in Python."""
_VERBS = r"\b(?:[Pp]ass|[Ll]eave out|[Ll]ower|[Rr]aise) "
_MAPPING = r"\{'(?P<key>[^']*)': '(?P<type>[^']*)'\}"
_VALUE = rf"(?:{_MAPPING}|'(?P<text>[^']*)'|(?P<word>[\w.+-]*[\w+-])?)"


@dataclass(frozen=True)
class Wording:
    """Names of arguments in Python, and what to type instead."""

    flags: dict[str, str]
    switches: frozenset[str]

    @classmethod
    def of(cls, options: KindOptions) -> Wording:
        """That of the options which kinds of data declare, beside those of the commands."""
        fields = {name: one for one in options.options for name, _ in one.fields.values()}
        switches = {name for name, one in fields.items() if one.shape is Shape.SWITCH}
        return cls({**{name: one.flag for name, one in fields.items()}, **_OWN}, frozenset({"replace", *switches}))

    def as_typed(self, message: str) -> str:
        """A message with arguments as options: those that begin it, have a value or follow words such as “pass”."""
        names = "|".join(sorted(map(re.escape, self.flags), key=len, reverse=True))
        # Not after a quote or “condition”, where it is what the user typed.
        message = re.sub(rf"(?<![\w'\"/-])(?<!condition )({names})={_VALUE}", self._with_value, message)
        begins = rf"(^|: )((?:{names})(?: and (?:{names}))?)(?= (?:must|needs|cannot|is not an option)\b| ['\"]|:)"
        message = re.sub(begins, self._each, message)
        message = re.sub(r"(^|: )(condition)(?= \S+[=<>])", self._each, message)
        message = re.sub(rf"({_VERBS})((?:{names})(?: or (?:{names}))?)(?![\w=])", self._each, message)
        message = re.sub(rf"(\b[Ll]eave )({names})(?= out\b)", self._each, message)
        message = re.sub(rf"(\bwith )({names})(?=[.,;:]|$)", self._each, message)
        return re.sub(r"(is not an option of .*; there are |^options )([\w, ]+)", self._each, message)

    def _each(self, found: re.Match[str]) -> str:
        return found[1] + re.sub(r"\w+", lambda name: self.flags.get(name[0], name[0]), found[2])

    def _with_value(self, found: re.Match[str]) -> str:
        name, flag = found[1], self.flags[found[1]]
        if name in self.switches and found["word"] in ("True", "False"):
            return flag if found["word"] == "True" else f"--no-{flag[2:]}"
        if found["key"] is not None:
            return f"{flag} {found['key']}={found['type']}"
        return " ".join(filter(None, (flag, found["text"] or found["word"])))
