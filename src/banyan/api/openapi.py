"""The OpenAPI 3.1 document, made from the route table and from nothing else.

Types become schemas by msgspec; a query type's fields become parameters. docs/contracts/api.md says what the
document cannot: order, bounds in time, what a client may rely on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import cast

import msgspec
from starlette.responses import Response

from banyan.api.context import Context
from banyan.api.faults import REQUEST_ID, FaultBody
from banyan.api.intake import NoBody, NoQuery
from banyan.api.table import Handler, Route
from banyan.core.shares import MAX_KEY, RETRY_HEADER

Json = dict[str, object]
# gap: OpenStack's routes are in no OpenAPI document; they are fuzzed by their own tables (tests/api/*/test_rows.py)
_REF = "#/components/schemas/{name}"
# One Server-Sent Event: "line" carries a JournalView, "end" a FaultBody.
_EVENT: Json = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"type": "string", "enum": ["line", "end"]},
        "id": {"type": "string", "description": "The line's number."},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
_DESCRIPTIONS = {
    400: "The request is wrong as it stands",
    401: "No valid credential came with it",
    403: "Denied by a rule",
    404: "No such thing, or not for this caller",
    405: "The address takes other methods",
    408: "The body did not arrive in time",
    409: "Denied by the present state",
    413: "The body is too large",
    414: "The address is too long",
    415: "The body is not JSON",
    431: "The header lines are too long",
    500: "Failed inside; the zone's log has the reason",
    503: "Cannot be reached, or is busy; see Retry-After",
}


class Document(msgspec.Struct, frozen=True):
    """Stands for "any JSON object" where a type says no more."""


def document(rows: Callable[[], Iterable[Route]]) -> Handler[NoQuery, NoBody]:
    """The handler that shows the document of `rows`; a function, because the table holds the handler."""

    @cache
    def encoded() -> bytes:
        return msgspec.json.encode(build(rows()))

    async def show(context: Context, query: NoQuery, body: NoBody) -> Response:
        return Response(encoded(), media_type="application/json")

    return show


def build(routes: Iterable[Route]) -> Json:
    """The document as plain values, ready for JSON."""
    rows = tuple(routes)
    types = [t for row in rows for t in (row.query, row.body, row.answer) if t not in (None, Document)]
    schemas, components = msgspec.json.schema_components([*types, FaultBody], ref_template=_REF)
    by_type = dict(zip([*types, FaultBody], cast("tuple[Json, ...]", schemas), strict=True))
    paths: dict[str, Json] = {}
    for row in rows:
        paths.setdefault(row.template, {})[row.method.lower()] = _operation(row, by_type, components)
    hidden = {t.__name__ for row in rows for t in (row.query,)} | {"NoBody"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Banyan",
            "version": "1",
            "description": "One control plane for very many clouds. Zone paths keep their slashes; %2F says the same.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in hidden},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                f"Fault{code}": _content({"$ref": _REF.format(name="FaultBody")}, text)
                for code, text in _DESCRIPTIONS.items()
            },
        },
    }


def _operation(row: Route, by_type: dict[object, Json], components: dict[str, object]) -> Json:
    operation: Json = {
        "operationId": _operation_id(row),
        "summary": row.summary,
        "tags": [row.action.partition(".")[0]],
        "parameters": [*_path_parameters(row), *_query_parameters(row, components), *_headers_taken(row)],
        "responses": _responses(row, by_type),
        "x-policy-action": row.action,
        "x-least-role": row.role.name.lower() if row.role else None,
        "security": [{"token": []}] if row.role else [],
    }
    if row.body is not NoBody:
        operation["requestBody"] = {
            "required": any(f.required for f in msgspec.structs.fields(row.body)),
            "content": {"application/json": {"schema": by_type[row.body]}},
        }
    return operation


def _operation_id(row: Route) -> str:
    words = [w.strip("{}") for w in row.template.split("/") if w] or ["root"]
    return "-".join([row.method.lower(), *(w.removesuffix(".json") for w in words)])


def _path_parameters(row: Route) -> list[Json]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "pattern": "^[A-Za-z0-9][A-Za-z0-9/_.:-]*$"},
        }
        for name in row.parameters
    ]


def _query_parameters(row: Route, components: dict[str, object]) -> list[Json]:
    """A parameter per field of the query type; its schema as msgspec says it, the description lifted out."""
    schema = components.get(row.query.__name__)
    if row.query is NoQuery or not isinstance(schema, dict):
        return []
    found: list[Json] = []
    for name, field in schema["properties"].items():
        plain = {k: v for k, v in field.items() if k != "description"}
        parameter: Json = {"name": name, "in": "query", "required": False, "schema": plain}
        if "description" in field:
            parameter["description"] = field["description"]
        found.append(parameter)
    return found


def _headers_taken(row: Route) -> list[Json]:
    if not row.keyed:
        return []
    text = "The same key with the same body gives the same answer for 24 hours; with another body 409 other-order."
    schema: Json = {"type": "string", "minLength": 1, "maxLength": MAX_KEY}
    name = "-".join(word.capitalize() for word in RETRY_HEADER.split("-"))
    return [{"name": name, "in": "header", "required": False, "schema": schema, "description": text}]


def _responses(row: Route, by_type: dict[object, Json]) -> Json:
    if row.status == 204:
        good: Json = {"description": "Done", "headers": _headers()}
    elif row.media != "application/json":
        good = {
            "description": "Done",
            "headers": _headers(),
            "content": {row.media: {"schema": _EVENT if row.stream else {"type": "string"}}},
        }
    else:
        schema: Json = {"type": "object"} if row.answer in (None, Document) else by_type[row.answer]
        good = _content(_page(schema) if row.paged else schema, "Done")
    codes = {400, 404, 405, 408, 413, 414, 415, 431, 500, 503}
    if row.role:
        codes |= {401, 403}
    if row.method != "GET":
        codes |= {409}
    faults: Json = {str(code): {"$ref": f"#/components/responses/Fault{code}"} for code in sorted(codes)}
    return {str(row.status): good, **faults}


def _page(item: Json) -> Json:
    """A PageView whose items have a type."""
    return {
        "type": "object",
        "required": ["items", "marker", "absent"],
        "properties": {
            "items": {"type": "array", "items": item},
            "marker": {"type": "string", "description": "Asks for the next page; empty at the end."},
            "absent": {"type": "array", "items": {"type": "string"}, "description": "Paths that could not be asked."},
        },
    }


def _content(schema: Json, description: str) -> Json:
    return {
        "description": description,
        "headers": _headers(),
        "content": {"application/json": {"schema": schema}},
    }


def _headers() -> Json:
    return {REQUEST_ID: {"schema": {"type": "string"}, "required": True}}
