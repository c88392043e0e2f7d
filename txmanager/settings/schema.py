"""The configuration as a JSON schema, for editors that complete and check TOML files.

It knows every table, key, type and limit of the installed chains. What keys say of each other is checked by
`txmanager config check` only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txmanager.settings.family import find, installed
from txmanager.settings.models import Settings

Schema = dict[str, Any]


def build_schema() -> Schema:
    schema = Settings.model_json_schema()
    defs: Schema = schema.setdefault("$defs", {})
    families = [find(name) for name in installed()]
    for table, models in (
        ("networks", [family.network for family in families]),
        ("pools", [family.pool for family in families]),
    ):
        forms = []
        for model in models:
            form = model.model_json_schema()
            defs.update(form.pop("$defs", {}))
            defs[model.__name__] = form
            forms.append({"$ref": f"#/$defs/{model.__name__}"})
        schema["properties"][table] = {
            "type": "object",
            "additionalProperties": forms[0] if len(forms) == 1 else {"anyOf": forms},
        }
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "txmanager configuration"
    bare: Schema = _without_titles(schema)
    return bare


def _without_titles(node: Any, named: bool = False) -> Any:
    """pydantic titles each key with its own name, which says nothing. `named`: the keys of this node are names."""
    if isinstance(node, Mapping):
        return {
            key: _without_titles(value, named=not named and key in ("properties", "$defs"))
            for key, value in node.items()
            if named or key != "title" or value == "txmanager configuration"
        }
    if isinstance(node, list):
        return [_without_titles(one) for one in node]
    return node
