"""Images of a real zone that is killed while they are sent, and fetched over real sockets."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.wire.zones.processes import Cloud, Zone, _Local, free_port
from tests.wire.zones.test_kill import doomed, reborn, wait_for_death

pytestmark = pytest.mark.slow

CONTENT = os.urandom(1 << 20) * 3


def say(zone: Zone, method: str, path: str, body: object = None, kind: str = "application/json") -> tuple[int, bytes]:
    """One request to the image API, as the admin at the zone's own machine."""
    connection = _Local(zone.data, 30.0)
    try:
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        connection.request(method, f"/image{path}", content, {"Content-Type": kind} if content is not None else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def new_image(zone: Zone) -> str:
    fields = {"name": "n", "disk_format": "raw", "container_format": "bare", "visibility": "public"}
    status, body = say(zone, "POST", "/v2/images", fields)
    assert status == 201, body
    return str(json.loads(body)["id"])


def shown(zone: Zone, id: str) -> dict[str, Any]:
    status, body = say(zone, "GET", f"/v2/images/{id}")
    assert status == 200, body
    return dict(json.loads(body))


def files(zone: Zone) -> list[Path]:
    return [path for path in (zone.data / "images").iterdir() if path.name != ".lock"]


def whole(zone: Zone, id: str) -> None:
    """The image is active, and its data is what was sent."""
    image = shown(zone, id)
    assert (image["status"], image["size"]) == ("active", len(CONTENT))
    assert image["os_hash_value"] == hashlib.sha512(CONTENT).hexdigest()
    assert say(zone, "GET", f"/v2/images/{id}/file") == (200, CONTENT)
    assert len(files(zone)) == 1


def send(zone: Zone, id: str) -> None:
    assert say(zone, "PUT", f"/v2/images/{id}/file", CONTENT, "application/octet-stream")[0] == 204


def test_a_zone_that_is_killed_in_an_upload_has_nothing_left_of_it(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        zone = cloud.zone("top").start()
        id = new_image(zone)
        connection = _Local(zone.data, 30.0)
        connection.putrequest("PUT", f"/image/v2/images/{id}/file")
        connection.putheader("Content-Type", "application/octet-stream")
        connection.putheader("Content-Length", str(2 * len(CONTENT)))
        connection.endheaders()
        connection.send(CONTENT)
        zone.wait_until(lambda: any(path.stat().st_size >= 1 << 20 for path in files(zone)), "to write of it")
        assert shown(zone, id)["status"] == "saving"
        zone.kill()
        connection.close()
        assert len(files(zone)) == 1
        zone.start()
        assert shown(zone, id)["status"] == "queued" and files(zone) == []
        assert "image-interrupted" in zone.kinds()
        send(zone, id)
        whole(zone, id)


@pytest.mark.parametrize("phase", ["before", "after"])
def test_a_zone_that_is_killed_at_the_end_of_an_upload_has_all_of_it_or_nothing(tmp_path: Path, phase: str) -> None:
    with Cloud(tmp_path) as cloud:
        zone = doomed(cloud.zone("top"), f"{phase}:image.received").start()
        id = new_image(zone)
        with pytest.raises((OSError, http.client.HTTPException)):
            send(zone, id)
        wait_for_death(zone)
        reborn(zone).start()
        if phase == "before":
            assert shown(zone, id)["status"] == "queued" and files(zone) == []
            send(zone, id)
        whole(zone, id)


class _There(BaseHTTPRequestHandler):
    """/a has the content, /b leads to it, /out leads where nobody may be led."""

    def do_GET(self) -> None:
        if self.path == "/a":
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT)
            return
        self.send_response(302)
        self.send_header("Location", {"/b": "/a", "/out": "ftp://127.0.0.1/"}.get(self.path, self.path))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def test_a_zone_fetches_what_an_address_names_if_its_settings_let_it(tmp_path: Path) -> None:
    port = free_port()
    server = ThreadingHTTPServer(("127.0.0.1", port), _There)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with Cloud(tmp_path) as cloud:
            zone = cloud.zone("top", settings=f"[images.web_download]\nprivate = true\nports = [{port}]\n").start()

            def fetched(path: str, status: str) -> tuple[str, str]:
                id = new_image(zone)
                method = {"name": "web-download", "uri": f"http://127.0.0.1:{port}{path}"}
                said, body = say(zone, "POST", f"/v2/images/{id}/import", {"method": method})
                assert said == 202, body
                zone.wait_until(lambda: tasks(id)["status"] == status, f"to fetch {path}")
                return id, str(tasks(id)["message"])

            def tasks(id: str) -> dict[str, Any]:
                return dict(json.loads(say(zone, "GET", f"/v2/images/{id}/tasks")[1])["tasks"][0])

            id, _ = fetched("/b", "success")
            whole(zone, id)
            for path, why in (("/out", "must begin with http"), ("/round", "redirects")):
                id, message = fetched(path, "failure")
                assert why in message and shown(zone, id)["os_glance_failed_import"] == "files"
            assert len(files(zone)) == 1
    finally:
        server.shutdown()
        server.server_close()
