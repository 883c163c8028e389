"""First steps without a checkout: our configurations, a folder to start from, help for editors.

All of it is shipped as text, so that it comes at once: schemas and completions take seconds to make
(``commands/schemas.py``, ``commands/completions.py``; `make help-texts` renews them).
"""

from __future__ import annotations

from lightning_sasv.starting.folder import init
from lightning_sasv.starting.texts import completion, configs, schema

__all__ = ["completion", "configs", "init", "schema"]
