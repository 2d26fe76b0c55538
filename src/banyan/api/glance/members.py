"""Whom an image is shared with."""

from __future__ import annotations

from banyan.api.glance import bodies, views
from banyan.api.openstack.call import Answer, Call


async def listed(call: Call) -> Answer:
    """Projects that an image is shared with."""
    found = await call.images.members.page(call.principal, call.params["image_id"])
    return {"members": [views.member(one) for one in found], "schema": "/v2/schemas/members"}


async def show(call: Call) -> Answer:
    """One of them."""
    return views.member(
        await call.images.members.show(call.principal, call.params["image_id"], call.params["member_id"])
    )


async def add(call: Call, body: bodies.MemberBody) -> Answer:
    """Offers an image to a project."""
    return views.member(await call.images.members.add(call.principal, call.params["image_id"], body.member))


async def answer(call: Call, body: bodies.AnswerBody) -> Answer:
    """What a project says to an image that is offered to it."""
    image, member = call.params["image_id"], call.params["member_id"]
    return views.member(await call.images.members.answer(call.principal, image, member, body.status))


async def remove(call: Call) -> Answer:
    """Takes the offer back."""
    await call.images.members.remove(call.principal, call.params["image_id"], call.params["member_id"])
    return None
