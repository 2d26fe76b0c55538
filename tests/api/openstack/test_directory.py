"""What users, projects, roles and the catalogue do beside what Tempest looks at."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.api.openstack.lab import SYSTEM, Json, Lab, on_project


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    yield lab
    lab.close()


NAMES = [
    "a.b c",
    "ünïcödé ☃",
    "x" * 64,
    "'; DROP TABLE users; --",
    "%41",
    "[id-1]",
    "new\nline",
    "١٢٣",
    "../etc",
    "to\u3000kyo\u00a0web",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_whatever_people_write(lab: Lab, name: str) -> None:
    project, user = lab.project(name), lab.user(name, password="x")
    assert lab.good("GET", f"/projects/{project}", lab.admin)["project"]["name"] == name
    for what, id in (("projects", project), ("users", user)):
        found = lab.good("GET", f"/{what}?name={quote(name, safe='')}", lab.admin)[what]
        assert [one["id"] for one in found] == [id]
    assert lab.try_log_in(name, "x").status_code == 201


def test_names_are_exact(lab: Lab) -> None:
    lab.user("Ann")
    lab.user("ann")
    assert lab.try_log_in("ANN", "ann-pw").status_code == 401
    body = {"user": {"name": "ann"}}
    assert lab.ask("POST", "/users", lab.admin, body).status_code == 409


@pytest.mark.parametrize("what", ["projects", "users", "groups", "roles", "domains"])
def test_a_taken_name_is_409_and_a_freed_one_is_free(lab: Lab, what: str) -> None:
    key = what.removesuffix("s")
    admin = lab.admin
    first = lab.good("POST", f"/{what}", admin, {key: {"name": "one"}})[key]["id"]
    second = lab.good("POST", f"/{what}", admin, {key: {"name": "two"}})[key]["id"]
    assert lab.ask("POST", f"/{what}", admin, {key: {"name": "one"}}).status_code == 409
    assert lab.ask("PATCH", f"/{what}/{second}", admin, {key: {"name": "one"}}).status_code == 409
    assert lab.ask("PATCH", f"/{what}/{second}", admin, {key: {"name": "two"}}).status_code == 200
    if what == "domains":
        lab.good("PATCH", f"/{what}/{first}", admin, {key: {"enabled": False}})
    lab.good("DELETE", f"/{what}/{first}", admin)
    assert lab.ask("GET", f"/{what}/{first}", admin).status_code == 404
    assert lab.ask("PATCH", f"/{what}/{second}", admin, {key: {"name": "one"}}).status_code == 200


def test_the_same_name_in_two_domains_is_two_people(lab: Lab) -> None:
    domain = lab.domain("d1")
    here, there = lab.user("ann"), lab.user("ann", domain, password="other")
    assert here != there
    assert lab.try_log_in("ann", "other").status_code == 401
    assert lab.try_log_in("ann", "other", domain=domain).status_code == 201


def test_what_clients_store_beside_the_known_fields_is_kept(lab: Lab) -> None:
    user = lab.user("ann", email="ann@x", options={"lock_password": True})
    shown = lab.good("GET", f"/users/{user}", lab.admin)["user"]
    assert (shown["email"], shown["options"]) == ("ann@x", {"lock_password": True})
    lab.good("PATCH", f"/users/{user}", lab.admin, {"user": {"phone": "1", "description": None}})
    shown = lab.good("GET", f"/users/{user}", lab.admin)["user"]
    assert (shown["email"], shown["phone"], shown["description"]) == ("ann@x", "1", "")
    assert "password" not in shown and "original_password" not in shown
    # A field of ours can not be overwritten from beside.
    lab.good("PATCH", f"/users/{user}", lab.admin, {"user": {"id": "mine", "links": {}, "password_expires_at": "x"}})
    assert lab.good("GET", f"/users/{user}", lab.admin)["user"]["id"] == user


def test_pages_hold_everybody_once(lab: Lab) -> None:
    ids = {lab.user(f"u{n}") for n in range(7)}
    path, found = "/users?limit=3", []
    for _ in range(9):
        page = lab.good("GET", path, lab.admin)
        found += [user["id"] for user in page["users"]]
        assert len(page["users"]) <= 3
        if page["links"]["next"] is None:
            assert "truncated" not in page
            break
        assert page["truncated"] is True
        path = page["links"]["next"].partition("/identity/v3")[2]
    assert len(found) == len(set(found)) and ids <= set(found)
    assert lab.good("GET", "/users?limit=0&name=u1", lab.admin)["links"]["next"] is None


def test_projects_lie_below_each_other_up_to_a_depth(lab: Lab) -> None:
    at = lab.project("p1")
    for depth in range(2, 6):
        at = lab.project(f"p{depth}", parent_id=at)
    body = {"project": {"name": "p6", "parent_id": at}}
    assert lab.ask("POST", "/projects", lab.admin, body).status_code == 403
    top = lab.good("GET", "/projects?name=p1", lab.admin)["projects"][0]
    assert top["parent_id"] == top["domain_id"] == "default"
    assert lab.ask("DELETE", f"/projects/{top['id']}", lab.admin).status_code == 403
    off = {"project": {"enabled": False}}
    assert lab.ask("PATCH", f"/projects/{top['id']}", lab.admin, off).status_code == 403
    lab.good("PATCH", f"/projects/{at}", lab.admin, off)
    other = lab.domain("d1")
    body = {"project": {"name": "p9", "parent_id": at, "domain_id": other}}
    assert lab.ask("POST", "/projects", lab.admin, body).status_code == 400
    body = {"project": {"name": "p9", "parent_id": "missing"}}
    assert lab.ask("POST", "/projects", lab.admin, body).status_code == 404
    moved = {"project": {"parent_id": top["id"]}}
    assert lab.ask("PATCH", f"/projects/{at}", lab.admin, moved).status_code == 400


def test_a_domain_goes_with_all_that_is_in_it_once_it_is_disabled(lab: Lab) -> None:
    domain = lab.domain("d1")
    outside = lab.project("outside")
    top = lab.project("p1", domain)
    below = lab.project("p2", domain, parent_id=top)
    user, group = lab.user("ann", domain), lab.group("g1", domain)
    role = lab.role("local", domain_id=domain)
    lab.good("PUT", f"/groups/{group}/users/{user}", lab.admin)
    lab.grant("member", f"users/{user}", f"projects/{below}")
    lab.grant("member", f"users/{user}", f"projects/{outside}")
    lab.grant("member", f"groups/{group}", f"domains/{domain}", inherited=True)
    key = {"application_credential": {"name": "k"}}
    token = lab.log_in("ann", "ann-pw", on_project(below), domain)
    lab.good("POST", f"/users/{user}/application_credentials", token, key)
    admin = lab.admin
    assert lab.ask("DELETE", f"/domains/{domain}", admin).status_code == 403
    lab.good("PATCH", f"/domains/{domain}", admin, {"domain": {"enabled": False}})
    lab.good("DELETE", f"/domains/{domain}", admin)
    for path in (f"/domains/{domain}", f"/projects/{top}", f"/users/{user}", f"/groups/{group}", f"/roles/{role}"):
        assert lab.ask("GET", path, admin).status_code == 404, path
    left = lab.good("GET", "/role_assignments", admin)["role_assignments"]
    assert {a["user"]["id"] for a in left if "user" in a} == {
        lab.good("GET", "/users?name=admin", admin)["users"][0]["id"]
    }
    assert not [a for a in left if "group" in a]


def test_the_default_domain_and_the_four_roles_stay(lab: Lab) -> None:
    admin = lab.admin
    assert lab.ask("PATCH", "/domains/default", admin, {"domain": {"enabled": False}}).status_code == 403
    assert lab.ask("DELETE", "/domains/default", admin).status_code == 403
    assert lab.ask("DELETE", "/projects/default", admin).status_code == 403
    for name in ("admin", "manager", "member", "reader"):
        role = lab.role(name)
        assert lab.ask("DELETE", f"/roles/{role}", admin).status_code == 403
        assert lab.ask("PATCH", f"/roles/{role}", admin, {"role": {"name": "x"}}).status_code == 403
        assert lab.ask("PATCH", f"/roles/{role}", admin, {"role": {"description": "x"}}).status_code == 200


def test_implied_roles_go_downwards_and_never_in_a_ring(lab: Lab) -> None:
    admin = lab.admin
    a, b, c = (lab.role(name) for name in "abc")
    lab.good("PUT", f"/roles/{a}/implies/{b}", admin)
    lab.good("PUT", f"/roles/{b}/implies/{c}", admin)
    assert lab.ask("PUT", f"/roles/{c}/implies/{a}", admin).status_code == 400
    assert lab.ask("PUT", f"/roles/{a}/implies/{a}", admin).status_code == 400
    project, user = lab.project("p1"), lab.user("ann")
    lab.grant("b", f"users/{user}", f"projects/{project}")
    names = [r["name"] for r in lab.try_log_in("ann", "ann-pw", on_project(project)).json()["token"]["roles"]]
    assert names == ["b", "c"]
    lab.good("DELETE", f"/roles/{c}", admin)
    names = [r["name"] for r in lab.try_log_in("ann", "ann-pw", on_project(project)).json()["token"]["roles"]]
    assert names == ["b"]


def test_inherited_grants_count_below_and_not_on_the_spot(lab: Lab) -> None:
    domain = lab.domain("d1")
    top = lab.project("p1", domain)
    below = lab.project("p2", domain, parent_id=top)
    user = lab.user("ann", domain)
    lab.grant("member", f"users/{user}", f"domains/{domain}", inherited=True)

    def may(scope: object) -> bool:
        return lab.try_log_in("ann", "ann-pw", scope, domain).status_code == 201

    assert may(on_project(top)) and may(on_project(below)) and not may({"domain": {"id": domain}})
    lab.good("DELETE", f"/OS-INHERIT/domains/{domain}/users/{user}/roles/{lab.role('member')}/inherited_to_projects",
             lab.admin)  # fmt: skip
    lab.grant("member", f"users/{user}", f"projects/{top}", inherited=True)
    assert not may(on_project(top)) and may(on_project(below))
    token = lab.log_in("ann", "ann-pw", domain=domain)
    assert [p["id"] for p in lab.good("GET", "/auth/projects", token)["projects"]] == [below]


def test_assignments_work_out_for_users(lab: Lab) -> None:
    project, user, group = lab.project("p1"), lab.user("ann"), lab.group("g1")
    lab.good("PUT", f"/groups/{group}/users/{user}", lab.admin)
    lab.grant("member", f"groups/{group}", f"projects/{project}")
    plain = lab.good("GET", f"/role_assignments?group.id={group}&include_names", lab.admin)["role_assignments"]
    assert [(a["group"]["name"], a["role"]["name"], a["scope"]["project"]["name"]) for a in plain] == [
        ("g1", "member", "p1")
    ]
    found = lab.good("GET", f"/role_assignments?user.id={user}&effective&include_names=1", lab.admin)[
        "role_assignments"
    ]
    assert sorted(a["role"]["name"] for a in found) == ["member", "reader"]
    assert all(a["links"]["membership"].endswith(f"/v3/groups/{group}/users/{user}") for a in found)
    assert not lab.good("GET", f"/role_assignments?user.id={user}", lab.admin)["role_assignments"]
    for wrong in (
        "user.id=a&group.id=b",
        "effective&group.id=b",
        "include_subtree=1",
        "scope.system=all&scope.domain.id=x",
        "scope.OS-INHERIT:inherited_to=domains",
    ):
        assert lab.ask("GET", f"/role_assignments?{wrong}", lab.admin).status_code == 400, wrong


def test_a_list_of_assignments_is_cut_and_says_so(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("banyan.zone.identity.grants.MAX_LIST", 2)
    body = lab.good("GET", "/role_assignments?effective", lab.admin)
    assert (len(body["role_assignments"]), body["truncated"]) == (2, True)


def test_tags_are_a_set(lab: Lab) -> None:
    project = lab.project("p1", tags=["b", "a"])
    path, admin = f"/projects/{project}/tags", lab.admin
    assert lab.good("GET", path, admin)["tags"] == ["a", "b"]
    odd = quote('x"y ü', safe="")
    assert lab.ask("PUT", f"{path}/{odd}", admin).status_code == 201
    assert lab.ask("GET", f"{path}/{odd}", admin).status_code == 204
    assert lab.ask("PUT", f"{path}/a%2Fb", admin).status_code == 400
    assert lab.ask("GET", f"{path}/A", admin).status_code == 404

    def found(query: str) -> bool:
        ids = [p["id"] for p in lab.good("GET", f"/projects?{query}", admin)["projects"]]
        return project in ids

    assert found("tags=a,b") and not found("tags=a,c") and found("tags-any=c,b") and found(f"tags={odd}")
    assert not found("not-tags=a,b") and found("not-tags=a,c") and not found("not-tags-any=c,b") and not found("tags=A")
    assert lab.ask("PUT", path, admin, {"tags": ["a", "a"]}).status_code == 400
    assert lab.ask("PUT", path, admin, {"tags": [f"t{n}" for n in range(81)]}).status_code == 400
    assert lab.good("PUT", path, admin, {"tags": ["z"]})["tags"] == ["z"]
    assert lab.ask("DELETE", path, admin).status_code == 204
    assert lab.good("GET", path, admin)["tags"] == []


def test_the_catalogue_holds_ours_and_what_was_added(lab: Lab) -> None:
    admin = lab.admin
    lab.good("PUT", "/regions/RegionTwo", admin, {"region": {}})
    service = lab.good("POST", "/services", admin, {"service": {"type": "object-store", "name": "swift"}})["service"]
    for interface, url in (("public", "http://s/$(project_id)s"), ("adminURL", "http://s/%(user_id)s")):
        endpoint = {"service_id": service["id"], "interface": interface, "url": url, "region_id": "RegionTwo"}
        lab.good("POST", "/endpoints", admin, {"endpoint": endpoint})
    token = lab.log_in(scope={"project": {"name": "admin", "domain": {"id": "default"}}})
    rows = {row["type"]: row for row in lab.good("GET", "/auth/catalog", token)["catalog"]}
    assert {"identity", "object-store"} <= set(rows)
    urls = {e["interface"]: e["url"] for e in rows["object-store"]["endpoints"]}
    me = lab.good("GET", "/auth/tokens", token, headers={"X-Subject-Token": token})["token"]
    assert urls == {"public": f"http://s/{me['project']['id']}", "admin": f"http://s/{me['user']['id']}"}
    system = {row["type"]: row for row in lab.good("GET", "/auth/catalog", lab.log_in(scope=SYSTEM))["catalog"]}
    assert [e["interface"] for e in system["object-store"]["endpoints"]] == ["admin"]
    assert lab.good("GET", "/auth/catalog", lab.log_in(scope="unscoped"))["catalog"] == []
    lab.good("PATCH", f"/services/{service['id']}", admin, {"service": {"enabled": False}})
    assert "object-store" not in {row["type"] for row in lab.good("GET", "/auth/catalog", token)["catalog"]}


def test_our_own_rows_are_shown_and_not_touched(lab: Lab) -> None:
    admin = lab.admin
    ours = next(s for s in lab.good("GET", "/services", admin)["services"] if s["type"] == "identity")
    assert lab.good("GET", f"/services/{ours['id']}", admin)["service"]["name"] == "keystone"
    endpoint = lab.good("GET", f"/endpoints?service_id={ours['id']}&interface=public", admin)["endpoints"][0]
    assert lab.good("GET", f"/endpoints/{endpoint['id']}", admin)["endpoint"]["url"] == "http://cloud:8780/identity/v3"
    for path in (f"/services/{ours['id']}", f"/endpoints/{endpoint['id']}"):
        key = path.split("/")[1].removesuffix("s")
        assert lab.ask("DELETE", path, admin).status_code == 403
        assert lab.ask("PATCH", path, admin, {key: {"name": "x"}}).status_code == 403
    assert lab.ask("DELETE", "/regions/RegionOne", admin).status_code == 403


def test_regions_form_no_ring_and_go_when_empty(lab: Lab) -> None:
    admin = lab.admin
    for id, parent in (("a", None), ("b", "a"), ("c", "b")):
        lab.good("PUT", f"/regions/{id}", admin, {"region": {"parent_region_id": parent}})
    assert lab.ask("PATCH", "/regions/a", admin, {"region": {"parent_region_id": "c"}}).status_code == 400
    assert lab.ask("PATCH", "/regions/a", admin, {"region": {"parent_region_id": "x"}}).status_code == 404
    assert lab.ask("DELETE", "/regions/a", admin).status_code == 403
    assert lab.ask("PUT", "/regions/a", admin, {"region": {}}).status_code == 409
    assert lab.ask("PUT", "/regions/d", admin, {"region": {"id": "e"}}).status_code == 400
    assert [r["id"] for r in lab.good("GET", "/regions?parent_region_id=a", admin)["regions"]] == ["b"]


def test_the_first_start_makes_one_administrator_once(lab: Lab) -> None:
    users = lab.good("GET", "/users", lab.admin)["users"]
    assert [user["name"] for user in users] == ["admin"]
    lab.open()
    assert lab.good("GET", "/users", lab.admin)["users"] == users
    kinds = [line.kind for line in lab.journal()]
    assert kinds.count("directory-created") == 1
    for scope in (SYSTEM, {"domain": {"id": "default"}}, {"project": {"name": "admin", "domain": {"id": "default"}}}):
        names = [role["name"] for role in lab.try_log_in(scope=scope).json()["token"]["roles"]]
        assert names == ["admin", "manager", "member", "reader"]


BESIDE: dict[str, Json] = {
    "/roles": {"role": {"name": "r9"}}, "/regions": {"region": {"id": "r9"}}, "/domains": {"domain": {"name": "d9"}},
    "/groups": {"group": {"name": "g9"}}, "/users": {"user": {"name": "u9"}}, "/services": {"service": {"type": "t9"}},
    "/projects": {"project": {"name": "p9"}}, "/endpoints": {"endpoint": {"interface": "public", "url": "http://a"}},
    "/credentials": {"credential": {"type": "cert", "blob": "b"}},
}  # fmt: skip


@pytest.mark.parametrize("beside", ["x", None, [1], {"extra_of": "x"}])
@pytest.mark.parametrize("path", BESIDE)
def test_what_stands_beside_the_thing_of_a_body_is_nothing_to_it(lab: Lab, path: str, beside: object) -> None:
    ((name, thing),) = BESIDE[path].items()
    if name == "endpoint":
        made = lab.good("POST", "/services", lab.admin, {"service": {"type": "t8"}})
        thing = {**thing, "service_id": made["service"]["id"]}
    answer = lab.ask("POST", path, lab.admin, {"a": beside, name: {**thing, "own": 1}, "x": beside})
    assert answer.status_code == 201, answer.text
    shown = answer.json()[name]
    assert "extra_of" not in shown and (name == "credential" or shown["own"] == 1)
    changed = {"description": "d"} if name not in ("credential", "endpoint") else {}
    answer = lab.ask("PATCH", f"{path}/{shown['id']}", lab.admin, {"a": beside, name: changed, "x": beside})
    assert answer.status_code == 200 and "extra_of" not in answer.json()[name], answer.text
