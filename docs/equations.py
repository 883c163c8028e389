"""Equations of the pages: the little LaTeX that they use, as MathML, which browsers draw.

Nothing is fetched and no script runs when a page is read. ``$…$`` is an equation in a line,
``$$…$$`` one by itself; code is left alone.
"""

from __future__ import annotations

import re
from html import escape

LETTERS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "theta": "θ", "lambda": "λ", "mu": "μ",
    "nu": "ν", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "omega": "ω", "ell": "ℓ",
    "Sigma": "Σ", "infty": "∞", "ldots": "…", "top": "⊤",
}  # fmt: skip
OPERATORS = {
    "cdot": "·", "times": "×", "pm": "±", "le": "≤", "ge": "≥", "ne": "≠", "approx": "≈",
    "propto": "∝", "in": "∈", "to": "→", "iff": "⟺", "land": "∧", "oplus": "⊕", "mid": "&#124;",
    "sum": "∑", "cup": "∪",
}  # fmt: skip
FUNCTIONS = ("log", "exp", "min", "max", "arg", "ilr", "llr", "logit")
THIN = '<mspace width="0.17em"></mspace>'
SPACES = {",": "0.17em", ";": "0.28em", " ": "0.28em", "quad": "1em", "qquad": "2em"}
BARS = {"lvert": "prefix", "rvert": "postfix"}
ACCENTS = {"tilde": "~", "bar": "¯", "hat": "^"}
WORDS = (
    {name: f"<mi>{letter}</mi>" for name, letter in LETTERS.items()}
    | {name: f"<mo>{sign}</mo>" for name, sign in OPERATORS.items()}
    | {name: f"<mi>{name}</mi>" for name in FUNCTIONS}
    | {name: f'<mspace width="{width}"></mspace>' for name, width in SPACES.items()}
    | {name: f'<mo form="{form}" stretchy="false">&#124;</mo>' for name, form in BARS.items()}
    | {name: f"<mo>{name}</mo>" for name in "{}"}
)
"""Commands that take nothing, as MathML; bars as numbers, for those of tables are others."""
_TOKEN = re.compile(r"\\(?:text|mathbf)\{[^{}]*\}|\\(?:[A-Za-z]+|.)|\d+(?:\.\d+)?|\s+|.", re.DOTALL)
CODE = re.compile(
    r"^ *(?P<fence>`{3,}|~{3,}).*?^ *(?P=fence) *$|(?P<ticks>`+)(?!`).*?[^`](?P=ticks)(?!`)",
    re.MULTILINE | re.DOTALL,
)
"""Fenced blocks, and code in a line."""
_EQUATION = re.compile(
    r"\$\$(?P<block>[^$]+)\$\$"
    r"|(?<![\w\\$])\$(?P<line>[^\s$](?:[^$\n]|\n(?!\n))*?)(?<=\S)\$(?!\w)"
)
_PART = re.compile(f"{CODE.pattern}|(?P<equation>{_EQUATION.pattern})", CODE.flags)


class EquationError(ValueError):
    """An equation that is not in the little LaTeX known here."""


def convert(page: str) -> str:
    """A page of Markdown with its equations as MathML."""

    def one(found: re.Match[str]) -> str:
        if found["equation"] is None:
            return found[0]
        if found["block"]:
            return f'<div class="equation">{mathml(found["block"], block=True)}</div>'
        return f"<span>{mathml(found['line'])}</span>"

    return _PART.sub(one, page)


def mathml(latex: str, *, block: bool = False) -> str:
    """An equation as a ``math`` element.

    Raises:
        EquationError: It has a command that is not known, or braces that do not match.
    """
    reader = _Reader(latex)
    body = reader.row(end=None)
    kind = ' display="block"' if block else ""
    return f"<math{kind}>{body}</math>"


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, latex: str) -> None:
        self.latex, self.at = latex, 0
        self.tokens = [token for token in _TOKEN.findall(latex.strip()) if not token.isspace()]

    def fail(self, what: str) -> EquationError:
        return EquationError(f"{what} in the equation {' '.join(self.latex.split())!r}")

    def next(self) -> str:
        if self.at == len(self.tokens):
            raise self.fail("something is missing at the end")
        self.at += 1
        return self.tokens[self.at - 1]

    def peek(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def row(self, end: str | None) -> str:
        """Everything up to a closing token, as one row."""
        parts = []
        while (token := self.peek()) != end:
            if token is None:
                raise self.fail(f"{end!r} is missing")
            parts.append(self.scripted())
        if end is not None:
            self.next()
        return f"<mrow>{''.join(parts)}</mrow>"

    def scripted(self) -> str:
        """An atom with what stands below and above it."""
        base, scripts = self.atom(), {}
        while self.peek() in ("_", "^"):
            side = self.next()
            scripts[side] = self.atom()
        wide = base in ("<mo>∑</mo>", "<mi>min</mi>", "<mi>max</mi>", "<mi>arg</mi>")
        below, above = scripts.get("_"), scripts.get("^")
        if below and above:
            tag = "munderover" if wide else "msubsup"
            return f"<{tag}>{base}{below}{above}</{tag}>"
        if below:
            tag = "munder" if wide else "msub"
            return f"<{tag}>{base}{below}</{tag}>"
        return f"<msup>{base}{above}</msup>" if above else base + self.space_after(base)

    def space_after(self, base: str) -> str:
        """The gap between a function and its argument, where no bracket makes one."""
        named = base in {f"<mi>{name}</mi>" for name in FUNCTIONS}
        apart = named and self.peek() not in (None, "(", "[", "|", "\\left", "}")
        return THIN if apart else ""

    def atom(self) -> str:
        token = self.next()
        if token == "{":
            return self.row("}")
        if word := re.fullmatch(r"\\(text|mathbf)\{(.*)\}", token):
            tag = "mtext" if word[1] == "text" else 'mi style="font-weight:bold"'
            text = LETTERS.get(word[2].removeprefix("\\"), escape(word[2]))
            return f"<{tag}>{text}</{tag.split()[0]}>"
        if token.startswith("\\"):
            return self.command(token[1:])
        if token[0].isdigit():
            return f"<mn>{token}</mn>"
        if token.isalpha():
            return f"<mi>{token}</mi>"
        if token in "}^_&":
            raise self.fail(f"{token!r} has no place")
        shown = {"-": "−", "*": "∗"}.get(token, escape(token)).replace("|", "&#124;")
        stretchy = ' stretchy="false"' if token in "()[]|" else ""
        return f"<mo{stretchy}>{shown}</mo>"

    def command(self, name: str) -> str:
        """What a command stands for, with what belongs to it."""
        if name in WORDS:
            return WORDS[name]
        if name in ACCENTS:
            return f'<mover accent="true">{self.atom()}<mo>{ACCENTS[name]}</mo></mover>'
        if name == "frac":
            return f"<mfrac>{self.atom()}{self.atom()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self.atom()}</msqrt>"
        if name in ("left", "right"):
            return self.fence(name)
        raise self.fail(f"\\{name} is not known")

    def fence(self, side: str) -> str:
        token = self.next().replace("|", "&#124;")
        form = {"left": "prefix", "right": "postfix"}[side]
        return f'<mo form="{form}" stretchy="true">{"" if token == "." else token}</mo>'
