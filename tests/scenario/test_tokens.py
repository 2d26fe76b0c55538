"""A token's subtree over several levels: the same zones whatever they are called, and nothing after a restore."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import TypeVar

import msgspec
import pytest

from banyan.core.errors import BanyanError, NotFound, Refused, Unauthenticated
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode
from banyan.core.messages import CallerInfo, PageQuery, Request
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.zone.front import Front
from banyan.zone.surface import Surface
from banyan.zone.views import HostView, TokenCreated, TokenView

T = TypeVar("T")
Ask = Callable[[Surface, Caller], Coroutine[object, object, T]]


@pytest.fixture
def world() -> Iterator[World]:
    """top, with mid and other below it, leaf and spare below mid; each but top and mid has hosts."""
    with World(seed=5, traced=False) as world:
        world.add("top").start()
        world["top"].wait()
        for path, hosts in (("top/mid", 0), ("top/other", 2), ("top/mid/leaf", 3), ("top/mid/spare", 1)):
            site = world.add(path, hosts=hosts)
            parent = world[path.rpartition("/")[0]]
            site.start(parent.ask(_code(site.name)).code)
            site.wait()
            world.advance(30.0)
        world.advance(30.0)
        yield world
        assert world.failures() == []


def _code(name: str) -> Ask:
    return lambda surface, caller: surface.create_code(
        caller, name=name, driver="*", labels={}, uses=1, expires=86_400.0, mode="place", replace=False
    )


def make(top: Site, under: str, role: Role = Role.OPERATOR) -> TokenCreated:
    return top.ask(lambda surface, caller: surface.create_token(caller, "ops", role, under, 86_400.0))


def ask(top: Site, token: TokenCreated, question: Ask[T]) -> T:
    async def asked(surface: Surface, _: Caller) -> T:
        return await question(surface, await surface.authenticate(token.token, "192.0.2.1", "req-1"))

    return top.ask(asked)


def hosts(top: Site, token: TokenCreated, path: str = "") -> dict[str, int]:
    """Hosts by zone, as the zones that have them tell them: asked hop by hop, with the caller."""
    page = ask(top, token, lambda surface, caller: surface.page(caller, "hosts", path, {}, "", 100))
    assert page.absent == ()
    found: dict[str, int] = {}
    for item in page.items:
        zone = msgspec.json.decode(item, type=HostView).zone
        found[zone] = found.get(zone, 0) + 1
    return found


def rename(top: Site, path: str, name: str) -> None:
    top.ask(lambda surface, caller: surface.command(caller, "zone.rename", path, {"name": name}))


def refused(top: Site, token: TokenCreated, question: Ask[object]) -> str:
    with pytest.raises(BanyanError) as error:
        ask(top, token, question)
    return error.value.code


def test_a_subtree_is_the_same_zones_at_every_level_whatever_they_are_called(world: World) -> None:
    top = world["top"]
    mid, leaf = make(top, "top/mid"), make(top, "leaf")
    assert hosts(top, mid) == {"top/mid/leaf": 3, "top/mid/spare": 1}
    assert hosts(top, leaf) == {"top/mid/leaf": 3}
    # Their names change places: what was given stays where it was.
    rename(top, "top/mid", "north")
    rename(top, "top/other", "mid")
    world.advance(120.0)
    assert hosts(top, mid) == hosts(top, mid, "top/north") == {"top/north/leaf": 3, "top/north/spare": 1}
    assert hosts(top, leaf) == hosts(top, leaf, "top/north/leaf") == {"top/north/leaf": 3}
    for token, path in ((mid, "top/mid"), (leaf, "top/mid"), (leaf, "top/north"), (leaf, "top/north/spare")):
        with pytest.raises(NotFound):
            hosts(top, token, path)
    # A word about a zone two levels down is for whoever has its parent as well, and for nobody elsewhere.
    ask(top, mid, lambda surface, caller: surface.command(caller, "zone.disable", "top/north/leaf", {}))
    spare = refused(top, leaf, lambda surface, caller: surface.command(caller, "zone.disable", "north/spare", {}))
    assert spare == "no-zone"
    listed = top.ask(lambda surface, caller: surface.tokens(caller, "", 10))
    under = {msgspec.json.decode(item, type=TokenView).under for item in listed.items}
    assert under == {"top/north", "top/north/leaf"}


def test_each_zone_on_the_way_looks_again_at_what_the_caller_may(world: World) -> None:
    """A zone that asks those below too much, by a fault of its own, is refused by them."""
    heard: list[Caller] = []
    top, mid = world["top"], front(world["top/mid"])
    answer = front(world["top/mid/leaf"])._zone.answer

    async def spy(request: Request, caller: Caller) -> bytes:
        heard.append(caller)
        return await answer(request, caller)

    front(world["top/mid/leaf"])._zone.answer = spy
    token = make(top, "leaf")
    assert hosts(top, token) == {"top/mid/leaf": 3}
    (caller,) = heard
    mine = ask(top, token, _myself)
    assert (caller.under, caller.issuer, caller.role, caller.token) == (mine.under, mine.issuer, mine.role, token.id)
    assert caller.under is not None

    def asked(target: str, caller: Caller) -> bytes:
        body = msgspec.msgpack.encode(PageQuery("hosts", target, {}, "", 10))
        return world["top/mid"].ask(lambda _, __: mid.answer(Request(1, "page", body, 1000, SAID), caller))

    assert asked("leaf", caller)
    for target in ("spare", ""):
        with pytest.raises(NotFound):
            asked(target, caller)
        assert asked(target, replace(caller, under=None))
    with pytest.raises(Refused, match="neither this one nor above"):
        asked("leaf", replace(caller, issuer=caller.under))


def front(site: Site) -> Front:
    assert site._built is not None
    return site._built.front


SAID = CallerInfo("", 1, ZoneCode(0), "", "", "", "")


async def _myself(surface: Surface, caller: Caller) -> Caller:
    return caller


def test_a_retired_zone_takes_its_tokens_along(world: World) -> None:
    top = world["top"]
    leaf, mid = make(top, "leaf"), make(top, "mid")
    world["top/mid"].ask(lambda surface, caller: surface.command(caller, "zone.retire", "leaf", {}))
    world.advance(120.0)
    with pytest.raises(Unauthenticated) as error:
        hosts(top, leaf)
    assert error.value.code == "token-zone-gone"
    assert hosts(top, mid) == {"top/mid/spare": 1}
    top.ask(lambda surface, caller: surface.command(caller, "zone.retire", "top/mid", {}))
    with pytest.raises(Unauthenticated):
        hosts(top, mid)


def test_a_parent_that_its_children_tell_of_a_restore_refuses_tokens(world: World) -> None:
    """As on PostgreSQL, where a dump that is brought back does not know that it is one."""
    top = world["top"]
    token, other = make(top, ""), make(top, "")
    image = top.backup()
    world.advance(10.0)
    for path in ("top/mid", "top/other"):
        site = world[path]
        site.crash("killed")
        site.start()
        site.wait()
    world.advance(60.0)
    top.ask(lambda surface, caller: surface.revoke_token(caller, other.id))
    late = make(top, "")
    top.crash("killed")
    top.replace_disk(image)
    top.start()
    top.wait()
    world.advance(120.0)
    why = {name: refused(top, one, _whole) for name, one in (("kept", token), ("revoked", other), ("late", late))}
    assert why == {"kept": "token-before-restore", "revoked": "token-before-restore", "late": "token-unknown"}
    top.ask(lambda surface, caller: surface.affirm_token(caller, token.id))
    assert ask(top, token, _whole) is not None


async def _whole(surface: Surface, caller: Caller) -> object:
    return await surface.status(caller)
