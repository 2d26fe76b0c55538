"""Who sees an image, and who may do something to it. What is not for the caller is not there, for all it can tell.

Roles are the policy table's (core/permissions.py); here is what an image adds to them: its owner, its visibility and
its members.
"""

from __future__ import annotations

from banyan.core.image import Image, Visibility
from banyan.core.image_rows import ImageRows
from banyan.core.permissions import ADMIN, NOTHING, SYSTEM_READER, Target, require
from banyan.core.principal import Principal, ScopeKind
from banyan.zone.images.refusals import no_image


def is_admin(who: Principal) -> bool:
    """Of the whole cloud: sees and changes every project's images."""
    return ADMIN.could(who)


def sees_all(who: Principal) -> bool:
    return is_admin(who) or SYSTEM_READER.could(who)


def viewer(who: Principal) -> str | None:
    """For a query: None sees every project's."""
    return None if sees_all(who) else who.project


def owns(who: Principal, image: Image) -> bool:
    return who.scope is ScopeKind.PROJECT and bool(who.project) and image.owner == who.project


def is_member(rows: ImageRows, who: Principal, image: Image) -> bool:
    """The image is shared with the caller's project, whatever that said to it."""
    if image.visibility is not Visibility.SHARED or who.scope is not ScopeKind.PROJECT or not who.project:
        return False
    return rows.members.get(image.id, who.project) is not None


def sees(rows: ImageRows, who: Principal, image: Image) -> bool:
    return sees_by_itself(who, image) or is_member(rows, who, image)


def sees_by_itself(who: Principal, image: Image) -> bool:
    """As far as the image says so: it may be shared with the caller's project all the same."""
    open_to_all = image.visibility in (Visibility.PUBLIC, Visibility.COMMUNITY)
    return sees_all(who) or open_to_all or owns(who, image)


def seen(rows: ImageRows, who: Principal, action: str, id: str) -> Image:
    """The image, for who may look at it and `action` is allowed to in its own project. Raises NotFound("no-image")."""
    image = found(rows, who, id)
    require(who, action, Target(project=who.project))
    return image


def found(rows: ImageRows, who: Principal, id: str) -> Image:
    """Raises NotFound("no-image") for what is not there, or not for the caller."""
    image = rows.images.get(id)
    if image is None or not sees(rows, who, image):
        raise no_image(id)
    return image


def own(rows: ImageRows, who: Principal, action: str, id: str) -> Image:
    """The image, for who may do that to it: its project, or an admin. Raises NotFound("no-image"), and Refused for one
    that the caller may only look at."""
    image = found(rows, who, id)
    require(who, action, Target(project=image.owner) if image.owner else NOTHING)
    return image
