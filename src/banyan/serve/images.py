"""The image service put together: its data in DATA/images, fetches over HTTP."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from banyan.serve.assemble import Assembled
from banyan.serve.config import ImagesTable
from banyan.serve.fetch import HttpFetcher
from banyan.store.image_files import FOLDER, ImageFolder
from banyan.zone.images.addresses import AddressRules
from banyan.zone.images.desk import ImageSettings
from banyan.zone.images.service import ImageService, make_images


async def open_images(settings: ImagesTable, data: Path, built: Assembled, stack: AsyncExitStack) -> ImageService:
    """Ready to be offered: what a process that ended left half done is undone."""
    zone, web = built.zone, settings.web_download
    files = ImageFolder(data / FOLDER, keep_free=settings.keep_free)
    stack.callback(files.close)
    rules = AddressRules(web.private, web.ports)
    service = make_images(
        zone.own,
        zone.store,
        zone.clock,
        zone.ids,
        files,
        HttpFetcher(rules, redirects=web.redirects),
        zone.tree_servers,
        ImageSettings(
            most=settings.largest,
            quota_images=settings.quota_images,
            quota_bytes=settings.quota_bytes,
            fetch_deadline=web.deadline,
            web_download=web.enabled,
        ),
        rules,
    )
    await service.start()
    stack.push_async_callback(service.close)
    return service
