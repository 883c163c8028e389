"""The model card of a bundle: what it was made of, what it does, and what it is not for.

One list of sections is written twice, as ``CARD.md`` and, with figures, as ``card.html``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from lightning_sasv.decisions import as_cost_model
from lightning_sasv.deploy.card_measured import (
    attack_bars,
    by_attack,
    measured_on,
    percent,
    said_of,
    score_plane,
)
from lightning_sasv.deploy.dev import no_verdict
from lightning_sasv.deploy.scorer import Scorer
from lightning_sasv.files import write_text
from lightning_sasv.fusion.conformal import outside_in_words
from lightning_sasv.fusion.doubts import warning_lines
from lightning_sasv.terminal import clean, in_a_row
from lightning_sasv.trials import CLASS_ORDER, Scores

MARKDOWN, PAGE = "CARD.md", "card.html"
LIMITS = (
    "Thresholds, bounds and the verdict unsure rest on dev: they hold for speakers, channels, "
    "languages and attacks like those of dev, and nothing is known of others. `lightning drift` "
    "says whether new scores are like dev's.",
    "The level of unsure holds on average over speakers, not for each of them: single speakers can "
    "be unsure many times as often.",
    "Front ends and score scales must be those that the bundle was made with; a score of another "
    "network means nothing to it.",
    "A decision is no proof of identity. Where much depends on it, a person must be able to ask "
    "for another way.",
    "Voices are personal data. Speaker models (`lightning enrol`) are written with mode 0600 and "
    "removed by `lightning enrol --forget NAME`; the service keeps no audio and logs no names with "
    "scores. The bundle holds dev scores and numbers in place of speakers, no names and no audio.",
)


class Section(NamedTuple):
    """A part of the card: text, a table (heading first), and a figure of the page."""

    title: str
    lines: Sequence[str] = ()
    table: Sequence[Sequence[str]] = ()
    figure: str = ""


def write_card(
    folder: Path, content: Mapping[str, Any], scorer: Scorer, sets: Mapping[str, Scores]
) -> None:
    """Write both forms of the card into the folder of a bundle."""
    sections = [*_sections(content, scorer, sets)]
    title = f"{content['system']}, a bundle of lightning-sasv"
    write_text(folder / MARKDOWN, _markdown(title, sections))
    write_text(folder / PAGE, _page(title, sections))


def _sections(
    content: Mapping[str, Any], scorer: Scorer, sets: Mapping[str, Scores]
) -> Iterator[Section]:
    split = [*sets][-1]
    yield Section("What it is", [*_what(content), *_warnings(content)])
    yield Section("Data", table=_data(content, sets))
    yield Section("Decision", _decision(content), _costs(content))
    yield Section(
        "What was measured",
        [
            *said_of(sets),
            "Unsure counts as no error, and costs nothing where the costs have no c_abstain.",
        ],
        measured_on(scorer, sets),
        score_plane(scorer, sets[split], split),
    )
    attacks = by_attack(scorer, sets[split])
    if attacks:
        rows = [(one.name, f"{one.trials:,}", *one.cells()) for one in attacks]
        head = ("attack", "spoofs", "accepted", "95 % by speaker", "unsure")
        yield Section(f"By attack, {split}", table=[head, *rows], figure=attack_bars(attacks))
    yield Section("Monotony", inversion_lines(content))
    yield Section("The verdict unsure", unsure_lines(content))
    yield Section("Limits of use", LIMITS)
    yield Section("Front ends and licences", _licences(content))
    made = [f"{name} {number}" for name, number in content["versions"].items()]
    yield Section("Versions", [", ".join(made), f"made {content['created']}, {content['format']}"])


def inversion_lines(content: Mapping[str, Any]) -> list[str]:
    """How many trials are rejected for a better score, of each set."""
    return [
        f"inversions: {found['count']:,} of {found['trials']:,} {split} trials are rejected, "
        "though an accepted one is no better in any score"
        for split, found in content.get("inversions", {}).items()
    ]


def unsure_lines(content: Mapping[str, Any]) -> list[str]:
    """When the third verdict is given, and how often it was."""
    about, costs = content.get("unsure", {}), as_cost_model(content["costs"])
    said = outside_in_words(about.get("level", 0.0))
    lines = [no_verdict(content) or f"unsure: {said}; replaces accepts only"]
    if "c_abstain" in content["costs"]:
        lines.append(f"unsure: where deciding nothing, at {costs.c_abstain:g}, costs least")
        lines += [costs.idle_c_abstain] if costs.idle_c_abstain else []
    return [*lines, *(_shares(split, one) for split, one in about.get("shares", {}).items())]


def _shares(split: str, one: Mapping[str, Any]) -> str:
    by_class = ", ".join(f"{percent(one['unsure'][str(code)])} of {code}s" for code in CLASS_ORDER)
    text = f"on {split} unsure: {by_class}"
    if "policy_a_dcf" in one:
        text += f"; policy a-DCF {one['policy_a_dcf']:.4f}"
    if one.get("accepted_spoofs_caught") is not None:
        caught = f"{100 * one['accepted_spoofs_caught']:.0f} %"
        text += f"; {caught} of the accepted spoofs are outside"
    if one.get("worth_below"):
        text += f", worth it where deciding nothing costs less than {one['worth_below']:.2g}"
    return text


def _what(content: Mapping[str, Any]) -> list[str]:
    fusion = content["fusion"]
    parts = [str(fusion[name]) for name in ("density", "calibration", "rule") if fusion[name]]
    takes = "fuses " + " and ".join(content.get("columns", ["an ASV score", "a CM score"]))
    if given := given_by_network(content):
        takes = f"takes {given}"
    third = no_verdict(content) is None or "c_abstain" in content["costs"]
    says = "accept, reject or unsure" if third else "accept or reject"
    return [f"{content['system']} {takes} ({', '.join(parts)}) and says {says}."]


def given_by_network(content: Mapping[str, Any]) -> str | None:
    """What a bundle is given in place of a cosine and a CM score, where its system is a joint one.

    Args:
        content: Content of ``bundle.json``.
    """
    given = {"given": "the two LLRs", "single": "the one score"}
    words = given.get(str(content["fusion"]["calibration"]))
    return words and f"{words} that its network, which is no part of it, gives a trial"


def _warnings(content: Mapping[str, Any]) -> list[str]:
    simulated = content["about"].get("corpus") == "twin"
    lines = ["Fitted on the twin, which is simulated: not for real speech."] if simulated else []
    return lines + warning_lines({content["system"]: content.get("warnings", [])})


def _data(content: Mapping[str, Any], sets: Mapping[str, Scores]) -> list[tuple[str, ...]]:
    rows = [("set", *(f"{code}s" for code in CLASS_ORDER), "speakers", "attacks")]
    for split, trials in sets.items():
        counts = [f"{int((trials.label == code).sum()):,}" for code in CLASS_ORDER]
        named = [
            "not known" if column is None else str(len({*column.tolist()} - {"-", "bonafide"}))
            for column in (trials.speaker, trials.attack)
        ]
        rows.append((split, *counts, *named))
    about = ", ".join(f"{key} {value}" for key, value in content["about"].items())
    return [*rows, ("from", about or "not named", "", "", "", "")]


def _decision(content: Mapping[str, Any]) -> list[str]:
    rule, limits = content["decision"], content["bounds"]
    lines = [f"{rule['kind']}, threshold {rule['threshold']:.6g}: {rule['meaning']}"]
    if limits is None:
        return [*lines, "The system gives no LLRs, so there are no bounds."]
    asv, cm = limits["asv_llr"], limits["cm_llr"]
    lines.append(
        f"LLR bounds: ASV {asv[0]:.3f} to {asv[1]:.3f}, CM {cm[0]:.3f} to {cm[1]:.3f} "
        f"({limits['method']})"
    )
    if limits["unreachable"]:
        lines.append(
            f"Within these bounds no trial can be {limits['unreachable']}ed at these costs."
        )
    return lines


def _costs(content: Mapping[str, Any]) -> list[tuple[str, ...]]:
    costs = content["costs"]
    return [tuple(costs), tuple(f"{value:g}" for value in costs.values())]


def _licences(content: Mapping[str, Any]) -> list[str]:
    lines = ["lightning-sasv: Apache-2.0"]
    for kind, one in content.get("front_ends", {}).items():
        sums = ", ".join(f"{n} {d}" for n, d in (one.get("weights_sha256") or {}).items())
        licence = one.get("licence", "see the source of the weights")
        lines.append(f"{kind}: {one.get('class_path')}, weights {sums or 'none'}; {licence}")
    if "front_ends" not in content:
        lines.append("Front ends are not recorded: the bundle takes scores.")
    return lines


def _markdown(title: str, sections: Sequence[Section]) -> str:
    parts = [f"# {_plain(title)}", f"Figures are in [{PAGE}]({PAGE})."]
    for one in sections:
        parts.append(f"## {one.title}")
        parts += ["\n".join(f"- {_plain(line)}" for line in one.lines)] if one.lines else []
        if one.table:
            head, *rows = (f"| {' | '.join(_plain(c) for c in row)} |" for row in one.table)
            parts.append("\n".join([head, "|---" * len(one.table[0]) + "|", *rows]))
    return "\n\n".join(parts) + "\n"


def _plain(cell: str) -> str:
    """Text that makes no table, no tag and no line of its own."""
    return in_a_row(cell).replace("<", "&lt;")


def _html(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(clean(text)))


STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#1b1f24}
table{border-collapse:collapse;font-size:14px}td,th{border-bottom:1px solid #d9dde1;padding:3px 12px
3px 0;text-align:left}h2{margin-top:1.6em;font-size:1.1em}svg{max-width:100%;height:auto}
"""


def _page(title: str, sections: Sequence[Section]) -> str:
    parts = [f"<h1>{_html(title)}</h1>"]
    for one in sections:
        parts.append(f"<section><h2>{_html(one.title)}</h2>")
        parts += [f"<p>{_html(line)}</p>" for line in one.lines]
        if one.table:
            head, *rows = one.table
            parts.append(f"<table><tr>{''.join(f'<th>{_html(c)}</th>' for c in head)}</tr>")
            for row in rows:
                parts.append(f"<tr>{''.join(f'<td>{_html(c)}</td>' for c in row)}</tr>")
            parts.append("</table>")
        parts += [f"<figure>{one.figure}</figure>" if one.figure else "", "</section>"]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_html(title)}</title><style>{STYLE}</style></head><body>"
        + "\n".join(parts)
        + "</body></html>\n"
    )
