"""A bundle as a service: HTTP, or lines of JSON.

The names are imported on first use, so that the help of ``lightning serve`` needs no FastAPI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_sasv import lazy

if TYPE_CHECKING:
    from lightning_sasv.service.serving import serve

__all__ = ["serve"]

__getattr__ = lazy(__name__, {"serving": ["serve"]})
