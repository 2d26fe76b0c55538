"""A cloud of a real zone: the first administrator, clouds.yaml, and a storm of logins from a stranger."""

from __future__ import annotations

import ssl
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from tests.wire.zones.processes import Cloud, Zone

SCOPE = {"project": {"name": "admin", "domain": {"id": "default"}}}


def client(zone: Zone, timeout: float = 30.0) -> httpx.Client:
    """Believes the zone's own certificate and no other."""
    trust = ssl.create_default_context(cafile=str(zone.data / "api.pem"))
    return httpx.Client(base_url=f"https://127.0.0.1:{zone.api}", verify=trust, timeout=timeout, trust_env=False)


def entry(zone: Zone, *arguments: str) -> dict[str, Any]:
    found = zone.cli("credentials", "--cloud-name", "c", "--json", *arguments).json()["clouds"]["c"]
    assert found["region_name"] == "RegionOne" and found["cacert"] == str(zone.data / "api.pem")
    return dict(found)


def log_in(http: httpx.Client, found: dict[str, Any]) -> httpx.Response:
    """As OpenStack's clients do with such an entry."""
    auth = found["auth"]
    if found["auth_type"] == "password":
        user = {"name": auth["username"], "password": auth["password"], "domain": {"id": auth["user_domain_id"]}}
        identity: dict[str, Any] = {"methods": ["password"], "password": {"user": user}}
        scope = {"project": {"name": auth["project_name"], "domain": {"id": auth["project_domain_id"]}}}
        return http.post(f"{auth['auth_url']}/auth/tokens", json={"auth": {"identity": identity, "scope": scope}})
    key = {"id": auth["application_credential_id"], "secret": auth["application_credential_secret"]}
    identity = {"methods": ["application_credential"], "application_credential": key}
    return http.post(f"{auth['auth_url']}/auth/tokens", json={"auth": {"identity": identity}})


def test_credentials_for_anybody_at_the_zones_machine(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        zone = cloud.zone("top").start()
        password = zone.data / "admin-password"
        assert password.stat().st_mode & 0o777 == 0o600
        with client(zone) as http:
            found = entry(zone)
            assert found["auth_type"] == "password" and found["auth"]["auth_url"].endswith(f":{zone.api}/identity/v3")
            answer = log_in(http, found)
            assert answer.status_code == 201
            head = {"X-Auth-Token": answer.headers["X-Subject-Token"]}
            project = http.post("/identity/v3/projects", json={"project": {"name": "web"}}, headers=head).json()[
                "project"
            ]
            user = http.post(
                "/identity/v3/users",
                json={"user": {"name": "ann", "password": "ann-pw", "default_project_id": project["id"]}},
                headers=head,
            ).json()["user"]
            # Without a role she has nothing to do there, and is told so.
            refused = zone.cli("credentials", "--cloud-name", "c", "--user", "ann", "--json")
            assert refused.status == 3 and "has no role" in refused.error()[1]
            member = http.get("/identity/v3/roles?name=member", headers=head).json()["roles"][0]["id"]
            where = f"/identity/v3/projects/{project['id']}/users/{user['id']}/roles/{member}"
            assert http.put(where, headers=head).status_code == 204
            hers = log_in(http, entry(zone, "--user", "ann"))
            assert hers.json()["token"]["project"]["name"] == "web"
            assert [r["name"] for r in hers.json()["token"]["roles"]] == ["member", "reader"]
            assert zone.cli("credentials", "--cloud-name", "c", "--user", "bob", "--json").status == 4
            assert zone.cli("credentials", "--cloud-name", "c", "--project", "none", "--json").status == 4
            # A second start makes nothing anew, and tokens go on.
            assert zone.stop() == 0
            zone.start()
            assert http.get("/identity/v3/users", headers=head).status_code == 200
            assert zone.kinds().count("directory-created") == 1
            # Without the file, and with another password, there is still a way in: a key.
            password.unlink()
            assert log_in(http, entry(zone)).json()["token"]["user"]["name"] == "admin"
            out = tmp_path / "clouds.yaml"
            assert zone.cli("credentials", "--cloud-name", "top", "--out", str(out)).status == 0
            assert out.stat().st_mode & 0o777 == 0o600 and out.read_text().startswith('clouds:\n  "top":\n')


def test_a_storm_of_logins_stops_nothing_else(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        zone = cloud.zone("top").start()
        with client(zone) as http:
            token = log_in(http, entry(zone)).headers["X-Subject-Token"]

            def storm(number: int) -> Counter[int]:
                seen: Counter[int] = Counter()
                user = {"name": f"nobody-{number}", "domain": {"id": "default"}, "password": "guess"}
                body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
                with client(zone) as mine:
                    for _ in range(10):
                        answer = mine.post("/identity/v3/auth/tokens", json=body)
                        seen[answer.status_code] += 1
                        if answer.status_code == 503:
                            assert int(answer.headers["Retry-After"]) >= 1
                return seen

            with ThreadPoolExecutor(40) as pool:
                strangers = [pool.submit(storm, number) for number in range(40)]
                while not all(one.done() for one in strangers):
                    assert http.get("/healthz").status_code == 200
                    answer = http.get("/identity/v3/auth/projects", headers={"X-Auth-Token": token})
                    assert answer.status_code in (200, 503)
                    assert zone.ask("/v1/status")[0] == 200
            total = sum((one.result() for one in strangers), Counter[int]())
            assert set(total) <= {401, 503} and total[401] and total[503]
            assert "banyan_passwords_refused_total" in zone.metrics()
            assert log_in(http, entry(zone)).status_code == 201
