"""The content of ``metrics.json``: version 2, what version 1 had of it, and what may be merged.

    {"format": "lightning_sasv.metrics", "version": 2,
     "systems": {name: {
       "sets": {"dev" | "eval" | …: {
         "values": {metric: number or null}, "undefined": {metric: why it is null},
         "intervals": {…}, "per_seed": {seed: {metric: …}}, "spread": {metric: …},
         "of": {…}}},                                      see ``record``
       "fitted": {…}, "fitted_on": {…}, "warnings": […]}},
     "comparisons": […]}

Inside the package :data:`Metrics` is what stands below ``systems``. Version 1, a file without
``format``, was ``{system: {"corpus", "seed", "dev": {metric: …}, "eval": {…}, "fitted", …}}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning_sasv.errors import InputError
from lightning_sasv.record import (
    NOT_RECORDED,
    Of,
    costs_words,
    is_part,
    set_title,
    share_words,
    simulated_words,
    unrecorded,
)
from lightning_sasv.trials import SPLITS, TWIN

FORMAT, VERSION = "lightning_sasv.metrics", 2
Metrics = dict[str, dict[str, Any]]

SAME = ("fingerprint", "costs", "tandem_costs", "eer_convention", "corpus", "scale", "twin_seed")
"""Fields in which all systems of a set agree."""
SAME_CORPUS = ("corpus", "scale", "twin_seed")
"""Fields in which all sets agree."""
_OWN = ("fitted", "warnings", "key", "system_key", "best_epoch", "network")
"""What both versions say of a system."""


def values_in(entry: Mapping[str, Any], split: str) -> dict[str, Any]:
    """Metrics of a system on a set; none where it was not evaluated."""
    values: dict[str, Any] = entry.get("sets", {}).get(split, {}).get("values", {})
    return values


def of_in(entry: Mapping[str, Any], split: str) -> Of:
    """What the metrics of a system on a set are of."""
    of: Of = entry.get("sets", {}).get(split, {}).get("of", {})
    return of or unrecorded()


def blocks(metrics: Metrics, split: str | None = None) -> Iterator[tuple[str, str, Of]]:
    """System, set and block of each result, of one set or of all."""
    for name, entry in metrics.items():
        for own in entry.get("sets", {}):
            if split in (None, own):
                yield name, own, of_in(entry, own)


def parts_of(metrics: Metrics) -> list[str]:
    """Titles of the sets that were scored in part."""
    found = [set_title(split, of) for _, split, of in blocks(metrics) if is_part(of)]
    return list(dict.fromkeys(found))


def costs_in(metrics: Metrics, split: str | None = None) -> str:
    """The costs of the a-DCF in these results, in words."""
    return "; ".join(dict.fromkeys(costs_words(of) for _, _, of in blocks(metrics, split)))


def rates_words(metrics: Metrics, split: str | None = None) -> str:
    """Units and convention of rates, and how many trials and enrolled speakers each set has."""
    conventions, sizes = [], []
    for _, own, of in blocks(metrics, split):
        counts, speakers = of["trials"], of["speakers"]
        size = f"{sum(counts.values()):,} trials" if isinstance(counts, Mapping) else ""
        people = f" of {speakers:,} speakers" if isinstance(speakers, int) else ""
        sizes.append(f"{own} {size or f'trials {NOT_RECORDED}'}{people}")
        conventions.append(str(of["eer_convention"]))
    kinds, trials = ("; ".join(dict.fromkeys(found)) for found in (conventions, sizes))
    return f"EERs in per cent, convention {kinds}; Cllr in bits; {trials}"


def twin_words(metrics: Metrics) -> list[str]:
    """That results are of a simulated corpus, and of what size of it."""
    return [*filter(None, dict.fromkeys(simulated_words(of) for _, _, of in blocks(metrics)))]


def shares_words(metrics: Metrics, split: str) -> str:
    """Share of the misses that one speaker has, by system: ``L3c 36 %``; of seeds the range."""
    found = ((name, share_words(of)) for name, _, of in blocks(metrics, split))
    return ", ".join(f"{name} {words}" for name, words in found if words)


def pairs_in(
    metrics: Metrics, split: str, names: Sequence[str] | None = None
) -> list[tuple[list[str], dict[str, Any]]]:
    """Systems that fuse the same pair of scores, by its t-EER and thresholds, and its values."""
    found: dict[tuple[Any, ...], tuple[list[str], dict[str, Any]]] = {}
    for name in metrics if names is None else names:
        values = values_in(metrics.get(name, {}), split)
        own = {key: value for key, value in values.items() if key.startswith("t_eer")}
        if own:
            key = tuple("" if value != value else value for value in own.values())
            found.setdefault(key, ([], own))[0].append(name)
    return list(found.values())


def as_content(metrics: Metrics, comparisons: Sequence[Any] = ()) -> dict[str, Any]:
    """Systems as the content of a file."""
    content = {"format": FORMAT, "version": VERSION, "systems": metrics}
    return content | ({"comparisons": list(comparisons)} if comparisons else {})


def systems_of(content: Any, path: str | Path) -> Metrics:
    """The systems of a file of either version.

    Raises:
        InputError: The content is something else, with the place where it is.
    """
    if not isinstance(content, dict):
        raise InputError(f"{path} does not hold metrics by system")
    if "format" not in content:
        return {name: _from_version_1(entry, name, path) for name, entry in content.items()}
    if content["format"] != FORMAT or content.get("version") != VERSION:
        shown = f"{content['format']!s:.40} {content.get('version')!s:.10}"
        raise InputError(f"{path}: {shown} is not {FORMAT} {VERSION}; update lightning_sasv")
    systems: Metrics = _mapping(content.get("systems"), "systems", path)
    for name, entry in systems.items():
        sets = _mapping(_mapping(entry, name, path).setdefault("sets", {}), f"{name}.sets", path)
        for split, one in sets.items():
            place = f"{name}.sets.{split}"
            for part in ("values", "undefined", "intervals", "per_seed", "spread"):
                if part in _mapping(one, place, path):
                    _mapping(one[part], f"{place}.{part}", path)
            one["of"] = _block(one.get("of", {}), f"{place}.of", path)
        entry["fitted_on"] = _block(entry.get("fitted_on") or {}, f"{name}.fitted_on", path)
    return systems


def _mapping(found: Any, place: str, path: str | Path) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise InputError(f"{path}, {place}: expected names and values, got {found!s:.60}")
    return found


def _block(found: Any, place: str, path: str | Path) -> Of:
    """A block with every field, ``not recorded`` for those that are absent."""
    block = unrecorded(**_mapping(found, place, path))
    for field in ("trials", "expected"):
        counts = block[field]
        known = isinstance(counts, dict) and all(type(one) is int for one in counts.values())
        if not known and (counts not in (None, NOT_RECORDED) or is_part(block)):
            raise InputError(f"{path}, {place}.{field}: expected counts, got {counts!s:.60}")
    return block


def _from_version_1(entry: Any, name: str, path: str | Path) -> dict[str, Any]:
    """An entry of version 1, of which corpus and seeds are known alone."""
    old = _mapping(entry, name, path)
    seeds = old.get("seeds", [old["seed"]] if "seed" in old else NOT_RECORDED)
    known = {"corpus": old.get("corpus", NOT_RECORDED), "seeds": seeds}
    known |= {"simulated": True} if known["corpus"] == TWIN else {}
    sets: dict[str, Any] = {
        split: {"values": _mapping(old[split], f"{name}.{split}", path), "of": unrecorded(**known)}
        for split in SPLITS
        if split in old
    }
    if isinstance(ci := old.get("ci"), dict) and "eval" in sets:
        ends = {"low": ci.get("low"), "high": ci.get("high"), "replicates": ci.get("replicates")}
        drawn = {"level": 0.95, "method": "percentile", "drawn": [ci.get("unit")]}
        sets["eval"]["intervals"] = {str(ci.get("metric")): ends | drawn}
    if "per_seed" in old and "eval" in sets:
        sets["eval"]["per_seed"] = _mapping(old["per_seed"], f"{name}.per_seed", path)
    own = {key: old[key] for key in _OWN if key in old}
    return own | {"sets": sets, "fitted_on": unrecorded(**known)}


def as_version_1(metrics: Metrics) -> dict[str, Any]:
    """The content of a file of version 1, which lacks most of what version 2 says."""
    return {name: _to_version_1(entry) for name, entry in metrics.items()}


def _to_version_1(entry: Mapping[str, Any]) -> dict[str, Any]:
    old = {key: entry[key] for key in _OWN if key in entry}
    for split, one in entry.get("sets", {}).items():
        of, old[split] = of_in(entry, split), one["values"]
        old |= {"corpus": of["corpus"]}
        for metric, ci in one.get("intervals", {}).items():
            if metric == "sasv_eer":
                ends = {"low": ci.get("low"), "high": ci.get("high")}
                unit = "-".join(map(str, ci.get("drawn") or ["trial"]))
                own = {"metric": metric, "unit": unit, "replicates": ci.get("replicates")}
                old["ci"] = own | ends
        seeds = of["seeds"] if isinstance(of["seeds"], list) else []
        if "per_seed" in one:
            old |= {"seeds": seeds, "per_seed": one["per_seed"]}
        elif seeds:
            old["seed"] = seeds[0]
    return old


def check_merge(there: Metrics, new: Metrics, path: str | Path) -> None:
    """Refuse results that do not belong beside those of a file.

    Systems of a set have the same trials, costs and conventions, and sets the same corpus. Results
    of a part may give way to those of another one, or of the whole, if no system keeps the old;
    so may those of version 1.

    Raises:
        InputError: They differ in a field, which is named.
    """
    for name, split, of in blocks(new):
        if "values" not in new[name]["sets"][split]:
            continue  # an addition to what is there
        for other, own, noted in blocks(there):
            fields: tuple[str, ...] = SAME if own == split else SAME_CORPUS
            if own != split and _trained_on(of) == _trained_on(noted) is not None:
                continue  # a set of another corpus on purpose
            kept = own == split and bool({one for one, _, _ in blocks(there, split)} - new.keys())
            if own == split and not kept and (is_part(of) or is_part(noted)):
                fields = fields[1:]
            known = [one for one in fields if kept or noted[one] != NOT_RECORDED]
            if (field := next((one for one in known if of[one] != noted[one]), None)) is None:
                continue
            raise InputError(
                f"{path} holds results of other {_WORDS.get(field, field)} ({other}, {own}: "
                f"{_NAMES.get(field, field)} {_shown(noted[field])} there, {_shown(of[field])} "
                "now): nothing was changed; choose another folder, or add --overwrite to replace "
                "them"
            )


def _trained_on(of: Of) -> str | None:
    """Corpus of the training, where one of the sets is of another."""
    return str(of["trained_on"]) if "trained_on" in of else None


_NAMES = {"fingerprint": "trials fingerprint"}
"""Beside it there are a corpus fingerprint, of embeddings, and that of a bundle."""
_WORDS = {"fingerprint": "trials", "eer_convention": "conventions", "tandem_costs": "costs"}


def _shown(value: Any) -> str:
    found = value.get("name", value) if isinstance(value, Mapping) else value
    return str(found)[:12]


def merged(there: Metrics, new: Metrics) -> Metrics:
    """Both; of a system on a set the new values stand alone, and additions join what is there."""
    found = dict(there)
    for name, entry in new.items():
        old = found.get(name, {})
        sets = dict(old.get("sets", {}))
        for split, one in entry.get("sets", {}).items():
            sets[split] = one if "values" in one else sets.get(split, {}) | one
        found[name] = old | entry | {"sets": sets}
    return found
