"""The addresses of the service; see ``docs/deploy.md``."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, Response

from lightning_sasv import __version__
from lightning_sasv.deploy.dev import DEV, Reference
from lightning_sasv.deploy.scorer import Scorer
from lightning_sasv.deploy.speakers import SpeakerModels
from lightning_sasv.deploy.verifier import SCORES_ALONE, Verified, Verifier
from lightning_sasv.errors import InputError
from lightning_sasv.files import finite
from lightning_sasv.service.gauges import Gauges
from lightning_sasv.service.guard import Receive, Scope, Send

PLANE = 60
"""Cells of the score plane on a side."""

MOST_ENROLMENTS = 20
JSON = b"application/json"
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Answer(BaseModel):
    """A decision, and what it rests on."""

    decision: str
    score: float
    asv_llr: float | None
    cm_llr: float | None
    margin: float
    reason: str | None = None


class Heard(Answer):
    """A decision on recordings."""

    asv_score: float
    cm_score: float
    seconds: dict[str, float]
    notes: list[str]
    outside: bool | None


def create_app(
    scorer: Scorer,
    verifier: Verifier | None,
    bundle: Path,
    speakers: str | Path,
    pool: ThreadPoolExecutor,
    gauges: Gauges,
) -> Scoring:
    """The application of a bundle.

    Args:
        scorer: Its scorer.
        verifier: Its way from recordings; ``None`` where it takes scores alone.
        bundle: Its folder.
        speakers: Folder of speaker models.
        pool: Where recordings are worked on.
        gauges: What is counted.
    """
    title = f"lightning-sasv: {scorer.metadata.get('system', '')}"
    app = FastAPI(title=title, version=__version__, docs_url=None, redoc_url=None)
    app.add_exception_handler(RequestValidationError, _unprocessable)
    app.add_exception_handler(InputError, _refused)
    scoring = Scoring(app, scorer, gauges)
    _add_pages(app, scorer, verifier, bundle, gauges)
    if verifier is not None:
        _add_recordings(app, verifier, SpeakerModels(speakers), pool, gauges)
    else:
        app.post("/verify", include_in_schema=False)(_no_recordings)
    return scoring


class Scoring:
    """Answers ``POST /score``; the rest it hands on.

    The way through FastAPI costs more than the decision, so that this address is answered before
    it; there it is described, and does the same.

    Args:
        app: Answers the rest.
        scorer: Decides.
        gauges: Counts.
    """

    def __init__(self, app: FastAPI, scorer: Scorer, gauges: Gauges) -> None:
        self.app, self.scorer, self.gauges = app, scorer, gauges
        columns = scorer.system.columns
        self.names = ("asv", "cm") if columns.is_pair else scorer.columns
        self.pair, self.first = columns.is_pair, [place.start for place in columns.sides()]
        fields: dict[str, Any] = dict.fromkeys(self.names, (Number, ...))
        fields["reason"] = (bool, Field(default=False, description="Say why, in words."))
        self.body: Any = create_model("Scores", __config__=ConfigDict(extra="forbid"), **fields)

        async def score(trial: Any) -> Response:
            """Decide on the scores of a trial."""
            return Response(self.decide(trial), media_type="application/json")

        score.__annotations__["trial"] = self.body
        app.post("/score", response_model=Answer)(score)

    def decide(self, trial: Any) -> bytes:
        """The answer to a trial, as JSON."""
        values = [getattr(trial, name) for name in self.names]
        asked = values if self.pair else [dict(zip(self.names, values, strict=True))]
        said = self.scorer(*asked)
        found = said.as_json(trial.reason)
        asv, cm = (values[place] for place in self.first)
        self.gauges.decided("/score", found["decision"], _counted(said, asv, cm))
        try:
            return json.dumps(found, allow_nan=False).encode()
        except ValueError:  # an infinite margin
            return json.dumps(finite(found)).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["path"] != "/score" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        status, headers = 200, [(b"content-type", JSON)]
        try:
            if not dict(scope["headers"]).get(b"content-type", b"").lower().startswith(JSON):
                raise InputError("send Content-Type: application/json")
            body = await _body(receive)
            found = self.decide(self.body.model_validate_json(body))
        except ValidationError as error:
            shown = [{"loc": ["body", *one["loc"]], "msg": one["msg"]} for one in error.errors()]
            status, found = 422, json.dumps({"detail": shown}).encode()
        except InputError as error:
            status, found = 422, json.dumps({"detail": str(error)}).encode()
        except HTTPException as error:  # too slow, or too much
            status, found = error.status_code, json.dumps({"detail": error.detail}).encode()
            headers = [*headers, (b"connection", b"close")]
        headers = [*headers, (b"content-length", b"%d" % len(found))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": found})


async def _body(receive: Receive) -> bytes:
    """The whole body; of a client that has gone what there is."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _counted(said: Any, asv: float, cm: float) -> tuple[Any, ...]:
    return asv, cm, said.score, said.asv_llr, said.cm_llr, said.outside


def _add_pages(
    app: FastAPI, scorer: Scorer, verifier: Verifier | None, bundle: Path, gauges: Gauges
) -> None:
    form = (Path(__file__).parent / "form.html").read_text(encoding="utf-8")
    listing = (Path(__file__).parent / "docs.html").read_text(encoding="utf-8")
    plane = json.dumps(score_plane(scorer, bundle))

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(form)

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(listing)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Whether the service answers, and what it is."""
        system = scorer.metadata.get("system")
        return {"status": "ok", "system": system, "recordings": verifier is not None}

    @app.get("/plane")
    async def decisions() -> Response:
        """Decisions over the plane of scores, row by row of the CM score."""
        return Response(plane, media_type="application/json")

    @app.get("/metrics")
    async def metrics() -> Response:
        """Counts, latency, quantiles of scores, share outside and priors, for Prometheus."""
        return Response(gauges.text(), media_type="text/plain; version=0.0.4")


def score_plane(scorer: Scorer, bundle: Path) -> dict[str, Any]:
    """Decisions on a grid over the scores of dev, ``a``, ``r`` or ``u`` for each cell."""
    asv, cm = (-0.2, 1.0), (-15.0, 15.0)
    if not scorer.system.columns.is_pair:
        return {"asv": asv, "cm": cm, "size": 0, "cells": ""}
    if (bundle / DEV).is_file():
        rows = Reference.load(bundle, 2).scores
        margins = 0.05 * np.ptp(rows, axis=1)
        low, high = rows.min(axis=1) - margins, rows.max(axis=1) + margins
        asv, cm = ((float(a), float(b)) for a, b in zip(low, high, strict=True))
    x, y = (np.linspace(*side, 2 * PLANE + 1)[1::2] for side in (asv, cm))  # middles of cells
    grid = np.meshgrid(x, y)
    words = np.asarray(scorer(grid[0].ravel(), grid[1].ravel()).decision)
    return {"asv": asv, "cm": cm, "size": PLANE, "cells": "".join(word[0] for word in words)}


def _add_recordings(
    app: FastAPI,
    verifier: Verifier,
    models: SpeakerModels,
    pool: ThreadPoolExecutor,
    gauges: Gauges,
) -> None:
    def decide(enrol: list[bytes], name: str | None, probe: bytes) -> Verified:
        if name is not None and name not in models:  # nobody learns here who is enrolled
            raise InputError("nobody is enrolled under this name")
        called = [*(f"enrolment {number}" for number in range(1, len(enrol) + 1)), "probe"]
        return verifier.decide(enrol, name, probe, models, called)

    async def verify(request: Request) -> Response:
        """Decide on a recording: a form with ``probe``, and ``enrol`` (up to 20) or ``name``."""
        try:
            async with request.form(max_files=MOST_ENROLMENTS + 1, max_fields=4) as form:
                parts = {key: form.getlist(key) for key in ("enrol", "probe", "name")}
                uploads = {
                    key: [await one.read() for one in parts[key] if isinstance(one, UploadFile)]
                    for key in ("enrol", "probe")
                }
        except MultiPartException as error:
            raise InputError(f"this is no form with recordings: {error.message}") from None
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        name = next((one for one in parts["name"] if isinstance(one, str) and one), None)
        enrol, probe = uploads["enrol"], uploads["probe"]
        if len(probe) != 1 or (not enrol) == (name is None):
            raise InputError("send one recording as probe, and enrol recordings or a name")
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(pool, decide, enrol, name, probe[0])
        counted = _counted(found, found.asv_score, found.cm_score)
        gauges.decided("/verify", found.decision, counted)  # by one thread: none is lost
        return Response(json.dumps(finite(found.as_json())), media_type="application/json")

    recording = {"type": "string", "format": "binary"}
    fields = {
        "probe": recording,
        "enrol": {"type": "array", "items": recording},
        "name": {"type": "string", "description": "a speaker whom `lightning enrol` kept"},
    }
    form = {"type": "object", "required": ["probe"], "properties": fields}
    content = {"multipart/form-data": {"schema": form}}
    described = {"requestBody": {"required": True, "content": content}}
    app.post("/verify", response_model=Heard, openapi_extra=described)(verify)


async def _no_recordings() -> Response:
    raise InputError(SCORES_ALONE)


async def _unprocessable(_: Request, error: Exception) -> JSONResponse:
    """What is wrong with a body, without the body: NaN could not be written."""
    assert isinstance(error, RequestValidationError)
    shown = [{"loc": list(one["loc"]), "msg": one["msg"]} for one in error.errors()]
    return JSONResponse({"detail": shown}, 422)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": " ".join(str(error).split())}, 422)
