"""Rows of images on each store: records, queries, what is counted, what is remembered."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from banyan.core.image import (
    Between,
    Image,
    ImageMember,
    ImageQuery,
    ImageSort,
    ImageStatus,
    ImageTask,
    MemberStatus,
    Stored,
    TaskState,
    Visibility,
)
from banyan.core.time import Wall
from tests.contract.store.conftest import Kept

IMAGE = Image(
    "i1", "p1", "Größe", ImageStatus.ACTIVE, Visibility.PUBLIC, "bare", "raw", 1 << 45, 1 << 46, "md5", "sha512", "hex",
    3, 4, True, True, {"a": 'b"c'}, ("t", "u,v"), Wall(5.5), Wall(6.5), "file", "attempt", "s1", "backup", "req", True,
    True,
)  # fmt: skip
MEMBER = ImageMember("i1", "p2", MemberStatus.ACCEPTED, Wall(1.0), Wall(2.0))
TASK = ImageTask(
    "t1", "i1", "p1", "u1", "req", "web-download", "http://a", TaskState.FAILURE, "why", Wall(1.0), Wall(2.0), Wall(3.0)
)


@pytest.mark.parametrize("record", [IMAGE, MEMBER, TASK])
def test_these_records_leave_no_field_at_its_default(record: object) -> None:
    for field in fields(record):
        assert getattr(record, field.name) != field.default, f"{type(record).__name__}.{field.name}"


def add(kept: Kept, *images: Image) -> None:
    for image in images:
        assert kept.write(lambda u, image=image: u.images.images.add(image))


def test_every_record_comes_back_whole(kept: Kept) -> None:
    add(kept, IMAGE)
    assert not kept.write(lambda u: u.images.images.add(IMAGE))
    assert kept.write(lambda u: u.images.members.add(MEMBER))
    assert not kept.write(lambda u: u.images.members.add(MEMBER))
    assert kept.write(lambda u: u.images.tasks.add(TASK))
    kept.again()
    assert kept.read(lambda u: u.images.images.get("i1")) == IMAGE
    assert kept.read(lambda u: u.images.members.get("i1", "p2")) == MEMBER
    assert kept.read(lambda u: u.images.tasks.get("t1")) == TASK
    kept.write(lambda u: u.images.members.put(replace(MEMBER, status=MemberStatus.REJECTED)))
    assert [one.status for one in kept.read(lambda u: u.images.members.of("i1", "", 9))] == [MemberStatus.REJECTED]
    assert kept.read(lambda u: u.images.members.count("i1")) == 1
    # Members go with their image; tasks tell of it still.
    assert kept.write(lambda u: u.images.images.delete("i1"))
    assert kept.read(lambda u: u.images.members.count("i1")) == 0
    assert kept.read(lambda u: u.images.tasks.get("t1")) == TASK


def test_images_are_found_by_what_is_under_way(kept: Kept) -> None:
    add(
        kept,
        Image("a", "p1", attempt="x", size=5),
        Image("b", "p1", server="s1", purpose="backup"),
        Image("c", "p1", server="s1", purpose="backup", filled=True, data="f", size=7),
        Image("d", "p2", size=9),
    )
    images = [one.id for one in kept.read(lambda u: u.images.images.unfinished("", 9))]
    assert images == ["a"]
    assert [one.id for one in kept.read(lambda u: u.images.images.awaiting("", 9))] == ["b"]
    assert [one.id for one in kept.read(lambda u: u.images.images.of_server("s1", "backup", "", 9))] == ["b", "c"]
    assert kept.read(lambda u: u.images.images.of_server("s1", "backup", "b", 9))[0].id == "c"
    assert kept.read(lambda u: u.images.images.stored("p1")) == Stored(3, 12)
    assert kept.read(lambda u: u.images.images.stored("nobody")) == Stored()
    assert kept.read(lambda u: u.images.images.files(["f", "g", ""])) == {"f"}


def ids(kept: Kept, query: ImageQuery, after: Image | None = None) -> str:
    return "".join(one.id for one in kept.read(lambda u: u.images.images.query(query, after, 100)))


def test_a_viewer_sees_its_own_the_public_and_what_it_accepted(kept: Kept) -> None:
    add(
        kept,
        *(
            Image(f"{owner}{kind.value[0:2]}", owner, visibility=kind, created_at=Wall(1.0))
            for owner in ("1", "2")
            for kind in Visibility
        ),
        Image("x", "", visibility=Visibility.PRIVATE),
    )
    for image, status in (("2sh", MemberStatus.PENDING), ("2pr", MemberStatus.ACCEPTED)):
        kept.write(lambda u, i=image, s=status: u.images.members.add(ImageMember(i, "1", s)))
    sort = ((ImageSort.ID, False),)
    assert ids(kept, ImageQuery(viewer="1", sort=sort)) == "1co1pr1pu1sh2pu"
    assert ids(kept, ImageQuery(viewer="1", sort=sort, member_status=MemberStatus.PENDING)) == "1co1pr1pu1sh2pu2sh"
    assert ids(kept, ImageQuery(viewer="1", sort=sort, member_status=None, community=True)) == "1co1pr1pu1sh2co2pu2sh"
    assert ids(kept, ImageQuery(viewer="1", sort=sort, visibility=Visibility.COMMUNITY)) == "1co2co"
    assert ids(kept, ImageQuery(viewer="", sort=sort)) == "1pu2pu"
    assert ids(kept, ImageQuery(sort=sort)) == "1co1pr1pu1sh2co2pr2pu2shx"


def test_filters_are_exact(kept: Kept) -> None:
    add(
        kept,
        Image("a", "p", tags=('x","y', "z"), properties={"k": "v", "k2": 'a","k3":"b'}, created_at=Wall(10.0)),
        Image("b", "p", tags=("x", "Z"), properties={"k": "V"}, created_at=Wall(11.0), hidden=True, min_ram=4),
    )
    every = ImageQuery(hidden=None, sort=((ImageSort.ID, False),))
    for query, found in (
        (replace(every, tags=("x",)), "b"), (replace(every, tags=("z",)), "a"), (replace(every, tags=("y",)), ""),
        (replace(every, tags=('x","y',)), "a"), (replace(every, properties={"k": "v"}), "a"),
        (replace(every, properties={"k3": "b"}), ""), (replace(every, properties={"k2": 'a","k3":"b'}), "a"),
        (replace(every, hidden=True), "b"), (replace(every, exact={"min_ram": 4}), "b"),
        (replace(every, created=(Between(Wall(10.0), Wall(11.0)),)), "a"),
        (replace(every, created=(Between(Wall(10.0), Wall(11.0), outside=True),)), "b"),
        (replace(every, created=(Between(below=Wall(10.0)),)), ""),
    ):  # fmt: skip
        assert ids(kept, query) == found, query


def test_every_order_is_whole_and_goes_on_after_any_image(kept: Kept) -> None:
    """Values that are equal, or missing, among them."""
    for n in range(6):
        some = n % 3 or None
        add(kept, Image(f"{n}", "p", name=some and f"n{some}", size=some, disk_format=some and "raw",
                        container_format=some and "bare", checksum=some and "c", min_disk=n % 2, min_ram=n % 2,
                        created_at=Wall(float(n % 2)), updated_at=Wall(float(n % 2))))  # fmt: skip
    for key in ImageSort:
        for down in (True, False):
            query = ImageQuery(sort=((key, down),))
            whole = list(kept.read(lambda u, query=query: u.images.images.query(query, None, 100)))
            assert len({one.id for one in whole}) == 6
            for at in range(6):
                rest = kept.read(lambda u, q=query, a=whole[at]: u.images.images.query(q, a, 100))
                assert list(rest) == whole[at + 1 :], (key, down, at)


def test_used_ids_are_remembered_for_a_while(kept: Kept) -> None:
    for n in range(3):
        kept.write(lambda u, n=n: u.images.images.bury(f"i{n}", Wall(float(n))))
    kept.write(lambda u: u.images.images.bury("i0", Wall(9.0)))
    assert kept.read(lambda u: u.images.images.buried("i0")) and not kept.read(lambda u: u.images.images.buried("x"))
    assert kept.write(lambda u: u.images.images.forget(Wall(2.0), 1)) == 1
    assert [kept.read(lambda u, n=n: u.images.images.buried(f"i{n}")) for n in range(3)] == [False, True, True]


def test_tasks_are_listed_the_newest_first_and_swept(kept: Kept) -> None:
    for n in range(4):
        task = replace(TASK, id=f"t{n}", created_at=Wall(float(n // 2)), expires=Wall(float(n)), owner=f"p{n % 2}")
        kept.write(lambda u, task=task: u.images.tasks.add(task))
    whole = kept.read(lambda u: u.images.tasks.newest("", None, None, 9))
    assert [one.id for one in whole] == ["t3", "t2", "t1", "t0"]
    assert kept.read(lambda u: u.images.tasks.newest("i1", None, whole[1], 9)) == whole[2:]
    assert [one.id for one in kept.read(lambda u: u.images.tasks.newest("", "p0", None, 9))] == ["t2", "t0"]
    assert kept.read(lambda u: u.images.tasks.newest("other", None, None, 9)) == []
    assert kept.write(lambda u: u.images.tasks.sweep(Wall(2.0), 9)) == 2
    assert [one.id for one in kept.read(lambda u: u.images.tasks.newest("", None, None, 9))] == ["t3", "t2"]
