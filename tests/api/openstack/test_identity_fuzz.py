"""Whatever comes in a body, an address or a query: an answer that is well-formed, never a 500, and a request id."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from banyan.api.keystone.rows import ROWS
from banyan.api.openstack.table import OPEN
from tests.api.openstack.identity_cases import CASES
from tests.api.openstack.lab import Lab
from tests.api.openstack.test_identity_authorisation import filled, prepared

_LAB: list[Lab] = []


def lab() -> Lab:
    """One for all examples: what they change, they change in it."""
    if not _LAB:
        _LAB.append(Lab(prepared()[2], seed=5))
    return _LAB[0]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["default", "x" * 300, "admin", "", " ", "\x00", "\ud800"[:0], "2.5", "t"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
WRITING = [row for row in ROWS if CASES[row.name].body is not None]
SETTINGS = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


def check(status: int, headers: object, content: bytes, name: str) -> None:
    assert status < 500 or status == 501, f"{name}: {status} {content[:300]!r}"
    assert "x-openstack-request-id" in headers
    if status >= 400 and content:
        fault = msgspec.json.decode(content)["error"]
        assert fault["code"] == status and fault["message"] and fault["title"]


@SETTINGS
@given(st.sampled_from(WRITING), st.data())
def test_any_field_may_be_anything(row: object, data: st.DataObject) -> None:
    """One field of a well-formed body is replaced, or added."""
    ids, tokens, _ = prepared()
    case = CASES[row.name]
    body = filled(case.body, {**ids, "made": ids["endpoint"], "key": ids["key"]})
    assert isinstance(body, dict)
    outer = data.draw(st.sampled_from(sorted(body)))
    inner = body[outer]
    if isinstance(inner, dict) and data.draw(st.booleans()):
        key = data.draw(st.sampled_from([*sorted(inner), "enabled", "domain_id", "description", "options", "tags"]))
        inner[key] = data.draw(VALUES)
    else:
        body[outer] = data.draw(VALUES)
    path = str(filled(case.path, {**ids, "made": ids["endpoint"]}))
    answer = lab().ask(row.method, path, tokens["admin"], body)
    check(answer.status_code, answer.headers, answer.content, row.name)


@SETTINGS
@given(st.sampled_from([row for row in ROWS if row.parameters]), st.text(min_size=1, max_size=40))
@example(ROWS[20], "\x00")
@example(ROWS[20], "x" * 3000)
def test_any_id_may_be_anything(row: object, text: str) -> None:
    from urllib.parse import quote

    path = row.path.removeprefix("/v3")
    try:
        spelled = quote(text, safe="")
    except UnicodeEncodeError:
        spelled = "%ED%A0%80"
    for name in row.parameters:
        path = path.replace(f"{{{name}}}", spelled)
    if row.method == "PUT" and "/regions/" in path:
        return
    answer = lab().ask(row.method, path, prepared()[1]["admin"], CASES[row.name].body)
    check(answer.status_code, answer.headers, answer.content, row.name)


@SETTINGS
@given(
    st.sampled_from([row for row in ROWS if row.method == "GET" and row.action != OPEN and not row.parameters]),
    st.lists(
        st.tuples(
            st.sampled_from(["name", "domain_id", "enabled", "limit", "marker", "user.id", "effective", "tags", "type",
                             "scope.project.id", "include_names", "include_subtree", "parent_id", "is_domain"]),
            st.text(max_size=12) | st.sampled_from(["true", "0", "-1", "default", "admin"]),
        ),
        max_size=4,
    ),
)  # fmt: skip
def test_any_query_may_be_anything(row: object, pairs: list[tuple[str, str]]) -> None:
    from urllib.parse import urlencode

    try:
        query = urlencode(pairs)
    except UnicodeEncodeError:
        query = "name=%ED%A0%80"
    path = row.path.removeprefix("/v3") + "?" + query
    answer = lab().ask("GET", path, prepared()[1]["admin"])
    check(answer.status_code, answer.headers, answer.content, row.name)


@SETTINGS
@given(st.binary(max_size=200) | st.text(max_size=80).map(lambda t: t.encode("utf-8", "surrogatepass")))
@example(b'{"auth": {"identity": {"methods": ["password"], "password": {"user": {"id": "\\ud800", "password": "x"}}}}}')
@example(b'{"auth": {"identity": {"methods": ["token"], "token": {"id": "\xc3\xa9"}}}}')
def test_any_login_may_be_anything(content: bytes) -> None:
    answer = lab().ask("POST", "/auth/tokens", content=content)
    check(answer.status_code, answer.headers, answer.content, "login")
    assert answer.status_code in (400, 401)
