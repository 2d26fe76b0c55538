"""The first administrator's password: drawn at the first start, kept in DATA/admin-password for its owner's eyes.

The file is written before the administrator is: a zone that was killed in between starts again with the same password.
A person may delete it once the password is changed or kept elsewhere; nothing reads it but `banyan credentials`.
"""

from __future__ import annotations

import base64
from pathlib import Path

from banyan.core.errors import Unreachable
from banyan.core.ports import Ids
from banyan.core.secret import Secret
from banyan.store.durable import make_file

NAME = "admin-password"
# 144 bits, 24 characters.
SIZE = 18


def first_password(folder: Path, ids: Ids) -> Secret:
    """The password that the first administrator gets. Raises Unreachable("cannot-write")."""
    path = folder / NAME
    try:
        if path.is_file() and (held := path.read_text(encoding="ascii").strip()):
            return Secret(held.encode())
        drawn = base64.urlsafe_b64encode(ids.token(SIZE)).decode()
        make_file(path, f"{drawn}\n".encode())
    except (OSError, UnicodeDecodeError) as error:
        raise Unreachable("cannot-write", f"cannot keep the administrator's password in {path}: {error}") from error
    return Secret(drawn.encode())
