"""Requests made from the OpenAPI document, well-formed and not: every answer is one that the document has.

The document is the client's truth, so the fuzz holds both: what is served, and what is written of it.
"""

from __future__ import annotations

from dataclasses import replace

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from banyan.api.context import Limits
from tests.api.cases import CASES
from tests.api.serving import make
from tests.api.surface import FakeSurface

BRIEF = replace(Limits(), follow_beat=0.01, follow_end=0.01)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

schema = schemathesis.openapi.from_asgi("/openapi.json", make(FakeSurface(), BRIEF))


def test_every_address_is_fuzzed() -> None:
    drawn = {f"{one.ok().method.upper()} {one.ok().path}" for one in schema.get_all_operations()}
    # The document itself is read to begin with, and left out by who reads it.
    assert drawn == {address.replace("…}", "}") for address in CASES} - {"GET /openapi.json"}


@schema.parametrize()
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_answer_is_in_the_document(case: schemathesis.Case) -> None:
    query = case.query or {}
    if "wait" in query:
        case.query = {**query, "wait": 0}
    case.call_and_validate(headers={"Authorization": "Bearer admin-all"}, checks=CHECKS)
