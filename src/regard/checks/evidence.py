"""What the author says: polarity, causality and kind of gate, read from names and docstrings, always quoted in a finding."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.checks.default_masks import default_polarity

KEEP = r"keep|kept|real|attend(ed|s)?( to)?|valid|visible|allowed?|participat\w*|seen?|take part|not (masked|pad\w*|ignored)|unmasked|use[ds]?|present|(real |actual |true )?tokens?|active|exists?|words?|frames?|contributes?|counts?|read(able)?|edges?|connected|neighbou?rs?|elements?|occupied|observed"
DROP = r"ignor\w*|pad(ding|ded|s)?|mask(ed|ing|s)?( out)?|hid(e|den|es|ing)|drop(ped|ping|s)?|not (attend\w*|allowed|visible|valid)|block(ed|ing|s)?|exclud\w*|disallow\w*|invalid|skip(ped|ping|s)?|remov\w*|suppress\w*|(?<!non.)(?<!not )(empty|vacant|absent|unused|unoccupied|missing|fillers?|filling|dumm(y|ies)|blanks?|fake|artificial)"
UNITS = r"tokens?|words?|frames?|edges?|neighbou?rs?|elements?"
PLAIN = (  # words before a unit after which it is one of the data
    r"the|an?|all|any|each|every|its?|this|that|these|those|own|of|in|at|where|there|is|are|to|can|for|with|be|and|or|real|true|actual|"
    r"genuine|ordinary|usual|normal|existing|observed|recorded|measured|decoded|known|available|input|text|source|target|context|memory|"
    r"key|query|image|video|audio|speech|sub|item|positions?"
)
WHICH = r"\bbool(ean)?s?\b,?:?( (tensor|mask|flags?))?,? which"  # "bool, which boxes exist", "bool, which of them are padding"
NOUN = r" \w+ (\w+ ){0,2}?"
STATED = r"real|valid|exists?|present|visible|kept|in use|to (be )?(keep|kept|use|attend)"
TRUE = r"(\b(true|1(\.0)?|ones?|non-?zero)s?|(?<![-=])(>|!=|≠) ?0(\.0)?)"
FALSE = r"(?<![^-=]>)(?<![^-=]> )(?<![!≠]=)(?<![!≠]= )\b(false|0(\.0)?|zeros?)"  # "> 0 where" says what is true
MID = r"(?P<mid>(\w+ ){0,4}?)"  # "where the context may be" between "True" and "attended"
THEN = r"\s+(that|which|to)\s+((are|is|be|must be|only)\s+)?"  # "True on frames that pad" speaks of padding
LINK = r"\s*(=+>?|:|->|→|means?|for|indicates?|marks?|at|where|are|is|on|if)\s*(a |the |to be |positions? (that |to )?(are |is |be )?|(keys?|tokens?|elements?|entries|values?) (that )?(are |is |to be |to )?)*"

DTYPE_WORDS = (
    ("add", "additive"),
    ("-inf", "additive"),
    ("minus", "additive"),
    ("bias", "additive"),
    ("bool", "bool"),
    ("int", "int"),
    ("long", "int"),
    ("uint8", "int"),
    ("float", "float"),
)

ADDED = r"\badditive\b|\badded to\b|-inf\b|\bminus infinity\b|\bnegative (number|value|elsewhere|where|for)\b|\b(very|large) negative\b"
ZERO_OR_MINUS = r"\b0(\.0)? [^.;]*(\band|\bor|,|/) *(-inf\b|minus infinity)"  # "0 for real frames and -inf for filler"

STATE = r"(.*_)?(is_)?(valid|keep|kept|visible)(_?(mask|tokens?|steps?|positions?|keys?|frames?))?"

FIXED = {  # names whose meaning torch, Hugging Face or graph code fixes
    "adj": ("keep", "graphs: 1 in adj is an edge"),
    "adj_mat": ("keep", "graphs: 1 in adj_mat is an edge"),
    "adj_matrix": ("keep", "graphs: 1 in adj_matrix is an edge"),
    "adjacency": ("keep", "graphs: 1 in adjacency is an edge"),
    "adjacency_matrix": ("keep", "graphs: 1 in adjacency_matrix is an edge"),
    "key_padding_mask": ("drop", "torch: True in key_padding_mask means ignore"),
    "src_key_padding_mask": ("drop", "torch: True in src_key_padding_mask means ignore"),
    "tgt_key_padding_mask": ("drop", "torch: True in tgt_key_padding_mask means ignore"),
    "memory_key_padding_mask": ("drop", "torch: True in memory_key_padding_mask means ignore"),
    "attention_mask": ("keep", "Hugging Face: 1 in attention_mask means attend"),
    "encoder_attention_mask": ("keep", "Hugging Face: 1 in encoder_attention_mask means attend"),
}


@dataclass(frozen=True)
class Evidence:
    """The texts of one subject: its class name, its docstrings, its source."""

    name: str
    doc: str
    source: str
    attributes: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()  # the same of configuration objects that it keeps: not all need be its own

    def polarity(self, parameter: str) -> tuple[str | None, str]:
        """("keep" | "drop" | None, the words that say so) for a mask parameter."""
        for said in (_said_polarity(self.doc, parameter), default_polarity(self.source, parameter)):
            if said[0] is not None:
                return said
        return FIXED.get(parameter, (None, ""))

    def names_a_state(self, parameter: str) -> bool:
        """Does the name say what a token is (valid, kept, visible), so that it is 1 or 0 of each and never added as it is?"""
        return re.fullmatch(STATE, parameter) is not None and self.dtype(parameter) != "additive"

    def says_polarity(self, parameter: str) -> bool:
        """Does the text itself (no name of fixed meaning) say what True means, in the words about this parameter?"""
        return _said_polarity(self.doc, parameter, near=True)[0] is not None

    def is_zero_or_one(self, parameter: str) -> bool:
        """Do the words, or what the module takes when none is given, make it a mask of 0 and 1, never added as it is?"""
        named = self.says_polarity(parameter) or default_polarity(self.source, parameter)[0] is not None
        return self.dtype(parameter) != "additive" and (named or self.names_a_state(parameter))

    def meant_by_name(self, parameter: str, takes_key_mask: Callable[[], bool]) -> bool:
        """Hugging Face's names fix a meaning for (items, keys) only: a mask over queries and keys is another thing there too."""
        fixed = FIXED.get(parameter)
        if (
            fixed is None
            or not fixed[1].startswith("Hugging Face")
            or _said_polarity(self.doc, parameter)[0] is not None
        ):
            return True
        return takes_key_mask()

    def shape(self, parameter: str) -> str | None:
        """The axes that the text gives a mask parameter, as letters of MaskUse.shape: "[B, S]" is "BS", "(N, 1, L)" "B1S"."""
        for chunk in _chunks(self.doc, parameter)[:3]:
            found = re.search(r"[\[(]\s*(\w+(\s*\w+)?(\s*,\s*\w+( \w+)?)+)\s*[\])]", chunk)
            if found:
                return _axes([a.strip().lower() for a in found.group(1).split(",")])
        return None

    def dtype(self, parameter: str) -> str | None:
        """ "bool", "int", "float" or "additive" where the text says so of a mask parameter."""
        for chunk in _chunks(self.doc, parameter)[:3]:
            if re.search(ZERO_OR_MINUS, chunk, re.IGNORECASE):
                return "additive"
            found = re.search(
                r"\b(additive|added to|-inf|minus infinity|bias|bool\w*|int(32|64|8|eger)?s?|long|uint8|float\w*)\b",
                chunk,
                re.IGNORECASE,
            )
            if found:
                word = found.group(1).lower()
                if word.startswith("float") and re.search(ADDED, chunk, re.IGNORECASE):
                    return "additive"
                return next(d for w, d in DTYPE_WORDS if word.startswith(w))
        return None

    def dtype_only(self, parameter: str) -> str | None:
        """The dtype that the words about a mask parameter name, where they name one kind only."""
        chunk = next(iter(_chunks(self.doc, parameter)), "")
        found = {
            d
            for w, d in DTYPE_WORDS
            if re.search(rf"\b{re.escape(w)}" if w[0] != "-" else re.escape(w), chunk, re.IGNORECASE)
        }
        return found.pop() if len(found) == 1 else None

    def promises(self, parameter: str) -> str | None:
        """The words that promise at least one visible key per item, if there are such words about this parameter."""
        for chunk in _chunks(self.doc, parameter)[:2]:
            found = re.search(
                r"at least (1|one)\b|>= ?1\b|\b(never|not) (all |be )?(empty|hidden|masked)|non-?empty|\b[Pp]ositive",
                chunk,
            )
            if found:
                return found.group(0)
        return None

    def says(self, pattern: str, *, where: str = "name doc") -> str | None:
        """The first match of a pattern in the name, the docstrings or the source."""
        for place in where.split():
            found = re.search(pattern, getattr(self, place), re.IGNORECASE)
            if found:
                return found.group(0)
        return None

    def number(self, names: str) -> int | None:
        """The integer attribute whose name matches, from "name=value" pairs; else that of a configuration object."""
        for pair in (*self.attributes, *self.settings):
            name, _, value = pair.partition("=")
            if re.fullmatch(names, name) and re.fullmatch(r"\d+", value):
                return int(value)
        return None


def read_evidence(obj: Any) -> Evidence:
    """Docstrings of the class, its forward and its file's class, and its plain attributes."""
    cls = type(obj) if isinstance(obj, nn.Module) else obj
    function = obj.forward if isinstance(obj, nn.Module) else obj
    docs = [getattr(cls, "__doc__", "") or "", getattr(function, "__doc__", "") or ""]
    if isinstance(obj, nn.Module):
        docs = [d for d in docs if d and d != nn.Module.__doc__]
        docs.append(getattr(cls.__init__, "__doc__", "") or "")
    attributes = []
    for part in obj.modules() if isinstance(obj, nn.Module) else ():
        for name, value in vars(part).items():
            if isinstance(value, (int, float, bool, str)) and not name.startswith("_") and name != "training":
                attributes.append(f"{name}={value}")
    name = getattr(cls, "__name__", "function")
    return Evidence(name, "\n".join(docs), _source(cls), tuple(attributes), tuple(_settings(obj)))


def _settings(obj: Any) -> list[str]:
    """Numbers in what the parts keep as config, cfg, args or the like."""
    out = []
    for part in obj.modules() if isinstance(obj, nn.Module) else ():
        for name, value in vars(part).items():
            if re.fullmatch(r"_?(conf|config|cfg|args|hparams|opts?|params|settings)", name):
                fields = value if isinstance(value, dict) else getattr(value, "__dict__", {})
                out += [f"{n}={v}" for n, v in fields.items() if type(v) is int and isinstance(n, str)]
    return list(dict.fromkeys(out))


def _source(cls: Any) -> str:
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError):
        return ""


def largest_code(source: str, parameter: str) -> int:
    """The largest whole number that this argument is compared with in the source (`mask == 2`): more states than two; 0 if none."""
    found = re.findall(rf"\b{re.escape(parameter)}\s*(?:==|!=|>=?|<=?)\s*(\d+)\b", source)
    return max(map(int, found), default=0)


def cast_to_float(source: str, parameter: str) -> bool:
    """Does the source cast this argument as it is (`mask[:, None].to(q.dtype)`, `mask.float()`), under this name or another?"""
    try:
        tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:
        return False
    names = {parameter}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _root(node.value) in names:
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    casts = ("to", "float", "type", "type_as", "double", "half")
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in casts
        and _root(node) in names
        and (node.args or node.func.attr in ("float", "double", "half"))
        and not re.search(r"device|bool|long|int", ast.unparse(node).partition("." + node.func.attr)[2])
        for node in ast.walk(tree)
    )


def _root(node: ast.expr) -> str | None:
    """The name that a chain of views and casts begins with: m in `m[:, None].unsqueeze(1).to(x)`."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return node.id if isinstance(node, ast.Name) else None


def _said_polarity(doc: str, parameter: str, near: bool = False) -> tuple[str | None, str]:
    """Look in the sentence that names the parameter, then in all of the text if it has one parameter's worth of masks."""
    chunks = _chunks(doc, parameter)
    for chunk in chunks[: len(chunks) // 3 * 3] if near else chunks:
        for truth, words, meaning in (
            (TRUE, KEEP, "keep"),
            (TRUE, DROP, "drop"),
            (FALSE, DROP, "keep"),
            (FALSE, KEEP, "drop"),
            (WHICH, STATED, "keep"),
            (WHICH, DROP, "drop"),
        ):
            between = LINK + MID if truth != WHICH else NOUN + (r"((are|is) )?" if words == STATED else r"(are|is) ")
            found = re.search(rf"{truth}{between}(?P<w>{words})\b", chunk, re.IGNORECASE)
            turned = found and words == KEEP and re.match(THEN + rf"({DROP})\b", chunk[found.end() :], re.IGNORECASE)
            if found and not turned and not _contradicts(found, truth, words):
                return meaning, found.group(0).strip()
    return None, ""


def _axes(names: list[str]) -> str | None:
    first = names[0] in ("b", "bs", "bsz", "batch", "n", "nbatches", "batch_size") or names[0].startswith("batch")
    ones = tuple(n == "1" for n in names)
    table = {
        2: "BS",
        3: "B1S" if ones[1:2] == (True,) else "BTS",
        4: "B11S" if ones[1:3] == (True, True) else "B1TS" if ones[1:2] == (True,) else "BHTS",
    }
    if len(names) == 3 and ones[2]:
        return "BS1"
    return table.get(len(names)) if first else ("TS" if len(names) == 2 else None)


def _contradicts(found: re.Match[str], truth: str, words: str) -> bool:
    """ "not" on the way, or a word of the other side before this one."""
    between = found.group(0)[: found.start("w") - found.start(0)]
    other = DROP if words in (KEEP, STATED) else STATED if found.re.pattern.startswith(WHICH) else KEEP
    nearest = between.split()[-1:]
    if (
        re.fullmatch(UNITS, found["w"], re.IGNORECASE)
        and found["mid"]
        and not re.fullmatch(PLAIN, nearest[0], re.IGNORECASE)
    ):
        return True  # tokens of a sort that says nothing of what becomes of them
    return bool(re.search(r"\b(not|never|no|cannot|can't|must not|isn't|aren't)\b", between, re.IGNORECASE)) or bool(
        re.search(rf"\b({other})\b", between[len(between.split()[0]) :] if between.split() else "", re.IGNORECASE)
    )


def _chunks(doc: str, parameter: str) -> list[str]:
    lines = [line.strip() for line in doc.splitlines()]
    out = []
    for i, line in enumerate(lines):
        at = re.search(rf"\b{re.escape(parameter)}\b", line)
        if at:
            rest = line[at.start() :]
            out += [re.split(r";|(?<=[.])\s", rest)[0], rest, " ".join([rest, *lines[i + 1 : i + 3]])]
    if re.search(r"\bmask", doc, re.IGNORECASE) or out:
        out.append(" ".join(lines))
    return out
