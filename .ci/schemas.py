"""JSON schemas of our YAML files, from what reads them.

They are shipped in ``lightning_sasv/starting/schemas``. Of classes a schema knows those that a file
may name by itself, and lets classes of other packages be named, which takes the user's word
(SECURITY.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from jsonargparse._completions_jsonschema import ParserJsonschema, schema_uri
from parsers import command_parser, training_parser

from lightning_sasv.commands.configs import made_by
from lightning_sasv.commands.loading import library
from lightning_sasv.commands.table import SHORT
from lightning_sasv.data.profiles import SETS, Profile, SetFiles
from lightning_sasv.decisions.costs import PRESETS, CostModel
from lightning_sasv.evaluation.claims import FIELDS, NEEDED, PLAIN, READING
from lightning_sasv.fusion.choice import RHO_CHOICES
from lightning_sasv.fusion.logistic import ORDERS
from lightning_sasv.fusion.rules import RULES
from lightning_sasv.fusion.settings import MOST_COMPONENTS, PARTS
from lightning_sasv.fusion.transforms import CHOSEN, TRANSFORMS
from lightning_sasv.starting import KINDS
from lightning_sasv.systems import NAME, OVERRIDE

Schema = dict[str, Any]

TEXT, YES_OR_NO, MAPPING = {"type": "string"}, {"type": "boolean"}, {"type": "object"}
_REFERENCE, _ABOUT = "reference", ("description", "default")
_OURS = r"lightning_sasv|pytorch_lightning|lightning_fabric|torch"


def schemas() -> dict[str, Schema]:
    """The schema of each kind of file."""
    made = {
        "fit": _of_options(training_parser("fit")),
        "table": _table(),
        "systems": _systems(),
        "costs": _costs(),
        "corpus": _corpus(),
        "claims": _claims(),
        "sweep": _sweep(),
    }
    return {name: {"$schema": schema_uri, "title": KINDS[name], **made[name]} for name in KINDS}


def _object(properties: Schema, *required: str, **more: Any) -> Schema:
    """A mapping with these keys and no others."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "additionalProperties": False, "properties": properties, **needed} | (
        more
    )


def _either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


class _Options(ParserJsonschema):
    """The schema of a command's options, in which classes are those that a file may name.

    jsonargparse's own takes every class that happens to be imported, and fails on arguments that
    are classes of classes.
    """

    def generate(self, parser: Any) -> Schema:
        """The schema; a value may refer to another one, and a section be a file of its own."""
        self.defs[_REFERENCE] = {"type": "string", "pattern": r"\$\{", "description": "${KEY}"}
        found: Schema = super().generate(parser)
        for name, part in found["properties"].items():
            if part.get("type") == "object":
                found["properties"][name] = _either(_closed(part), TEXT)
        del found["$schema"]
        return found

    def class_ref(self, class_type: Any, action: Any, subclass: bool) -> Schema:
        """A class by reference."""
        if isinstance(class_type, type) and issubclass(class_type, type):
            return dict(TEXT)
        if not subclass:  # a group of plain values
            return dict(MAPPING)
        found: Schema = super().class_ref(class_type, action, subclass)
        return found

    def class_parser_schema(self, *args: Any) -> Schema:
        """Arguments of a class; its defaults, some of them new in every process, are its own."""
        found: Schema = super().class_parser_schema(*args)
        for one in found.get("properties", {}).values():
            one.pop("default", None)
        return _closed(found)

    def subclass_def(self, class_type: Any, action: Any) -> Schema:
        """Listed classes of a kind, each with its arguments, and those of other packages."""
        names: dict[Any, list[str]] = {}
        for name, factory in sorted(library().items()):
            if isinstance(class_type, type) and issubclass(made_by(factory), class_type):
                names.setdefault(factory, []).append(name)
        listed = []
        for known in names.values():
            one = _closed(self.class_path_schema(known[0], action))
            one["properties"]["class_path"] = {"enum": known}
            listed.append(one)
        foreign = {**TEXT, "pattern": rf"^(?!({_OURS})\.)[A-Za-z_]\w*(\.\w+)+$"}
        others = _object({"class_path": foreign, "init_args": MAPPING, "dict_kwargs": MAPPING})
        return _either(TEXT, *listed, {**others, "required": ["class_path"]})

    def action_schema(self, action: Any, required: bool, consts: Any) -> Schema:
        """An option: its values, or a reference to another one."""
        found: Schema = _in_order(super().action_schema(action, required, consts))
        about: Schema = {key: found.pop(key) for key in _ABOUT if key in found}
        if found and "string" not in (found.get("type"), *found.get("type", ())):
            found = _either(found, {"$ref": f"#/$defs/{_REFERENCE}"})
        return {**found, **about}

    def set_dest(self, schema: Schema, dest: str, dest_schema: Schema, *others: Any) -> None:
        """Put an option into its place; one of several values can be added to (``KEY+``)."""
        super().set_dest(schema, dest, dest_schema, *others)
        if any(part.get("type") == "array" for part in _alternatives(dest_schema)):
            more = {**dest_schema, "description": f"Further values of {dest.rpartition('.')[2]}"}
            super().set_dest(schema, f"{dest}+", more, *others)


def _of_options(parser: Any) -> Schema:
    return _Options().generate(parser)  # type: ignore[no-untyped-call]


def _closed(schema: Schema) -> Schema:
    """A mapping inside of a file, which names no schema of its own."""
    schema.get("properties", {}).pop("$schema", None)
    return schema


def _in_order(schema: Any) -> Any:
    """With sorted alternatives: Python gives those of a type in the order of who asked first."""
    if isinstance(schema, list):
        return [_in_order(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _in_order(value) for key, value in schema.items()}
    for key in ("type", "anyOf"):
        if isinstance(found.get(key), list):
            found[key].sort(key=str)
    return found


def _alternatives(schema: Schema) -> Iterator[Schema]:
    """What a schema lets a value be."""
    yield schema
    for part in schema.get("anyOf", ()):
        yield from _alternatives(part)


def _table() -> Schema:
    """Options of a table, also by the names that they have for ``fit``."""
    found = _closed(_of_options(command_parser("table")))
    groups = {"": found["properties"]}
    for name in ("data", "model", "trainer"):
        groups[name] = found["properties"][name]["anyOf"][0]["properties"]
    for also, meant in SHORT.items():
        (group, _, name), (place, _, own) = also.rpartition("."), meant.rpartition(".")
        known = groups.get(place, {}).get(own, {})  # a key of a mapping is of any kind
        groups[group][name] = {**known, "description": f"{meant}."}
    systems = {"type": "array", "items": TEXT}
    groups["model"]["systems"] = _either(TEXT, systems)
    groups[""]["seed_everything"] = _either(TEXT, {"type": "integer"})
    return found


def _costs() -> Schema:
    number = _either({"type": "number", "minimum": 0}, {**TEXT, "pattern": r"^[-+.\deEinfINF]+$"})
    own = {one.name: {**number, "default": one.default} for one in fields(CostModel)}
    del own["c_abstain"]["default"]  # infinity, which JSON lacks
    return _object(own)


def _systems() -> Schema:
    """Settings of systems by name, from the registries of their parts."""
    words = {"enum": [*TRANSFORMS, CHOSEN]}
    plain = {"type": ["number", "string", "boolean", "null"]}
    other = _object(
        {"class_path": TEXT, "init_args": {**MAPPING, "additionalProperties": plain}}, "class_path"
    )
    above = {"type": "number", "exclusiveMinimum": 0}
    own = {
        "density": _either({"enum": [None, *PARTS["density"]]}, other),
        "calibration": _either({"enum": [None, *PARTS["calibration"]]}, other),
        "rule": _either({"enum": [*RULES]}, other),
        "rho": _either({"type": "number", "minimum": 0, "maximum": 1}, {"enum": [*RHO_CHOICES]}),
        "dof": above,
        "components": {"type": "integer", "minimum": 1, "maximum": MOST_COMPONENTS},
        "penalty": _either({"type": "number", "minimum": 0}, {"enum": [None, CHOSEN]}),
        "effective_prior": {**above, "exclusiveMaximum": 1},
        "cm_positives": {"enum": ["bonafide", "target"]},
        "costs": _either({"enum": [*PRESETS]}, _costs()),
        "trim": _either(above, {"type": "null"}),
        "order": {"enum": [*ORDERS, CHOSEN]},
        "transform": _either(words, {**MAPPING, "additionalProperties": words}),
        OVERRIDE: {**YES_OR_NO, "description": "Whether a system of ours has these settings here."},
    }
    named = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": f"^{NAME.pattern}$"},
        "additionalProperties": _object(own),
    }
    return _object({"systems": named}, "systems")


_KINDS_OF_FIELDS = {"bool": YES_OR_NO, "str": TEXT}


def _corpus() -> Schema:
    names = {**MAPPING, "additionalProperties": TEXT}
    of_set = {field.name: TEXT for field in fields(SetFiles)} | {"lists": names, "details": names}
    own = {
        field.name: _KINDS_OF_FIELDS.get(str(field.type), names)
        for field in fields(Profile)
        if field.name != "name"
    }
    own |= {name: _object(of_set, "lists") for name in SETS} | {"costs": {"enum": [*PRESETS]}}
    return _object(own, anyOf=[{"required": [name]} for name in SETS])


def _claims() -> Schema:
    """Claims: fields are texts but for lists of files and options of ``evaluate``."""
    options = _object(dict.fromkeys(READING, TEXT) | {"allow_missing": YES_OR_NO})
    file = {**MAPPING, "properties": {"path": TEXT, "sha256": TEXT}, "required": ["path"]}
    listed = _either({"type": "array", "items": file}, {"type": "null"})
    own = {name: _either(TEXT, {"type": "null"}) for name in FIELDS}
    own |= {name: dict(TEXT) for name in NEEDED} | {"options": options}
    own |= {name: listed for name in ("files", "dev") if name in FIELDS}
    own["published"]["pattern"] = f"^{PLAIN.pattern}$"
    claim = _object(own, *NEEDED)
    claims = {"type": "array", "minItems": 1, "items": claim}
    return {"type": "object", "properties": {"claims": claims}, "required": ["claims"]}


def _sweep() -> Schema:
    """A sweep file of W&B's, as far as we read it ourselves; W&B knows more keys."""
    word, goal = {"type": ["string", "number"]}, {"enum": ["minimize", "maximize"]}
    axis = {**MAPPING, "properties": {"values": {"type": "array", "minItems": 1}}}
    properties = {
        "name": word,
        "project": TEXT,
        "method": {"enum": ["grid", "random", "bayes"]},
        "metric": {**MAPPING, "properties": {"name": TEXT, "goal": goal}},
        "parameters": {**MAPPING, "minProperties": 1, "additionalProperties": axis},
        "command": {"type": "array", "minItems": 1, "items": word},
    }
    return {**MAPPING, "properties": properties, "required": ["method", "parameters", "command"]}
