"""The Hugging Face hub: a model's folder goes up, and the two files of its checkpoint come down."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toppo.errors import BAD_DATA, IO_ERROR, NO_INPUT, ToppoError, first_line, install_command
from toppo.rundir.checkpoint import ARRAYS, MANIFEST, MAX_ARRAY_BYTES
from toppo.rundir.layout import MAX_JSON_BYTES

PREFIX = "hf://"
CARD = "README.md"
CURVE = "curve.png"
MAX_BYTES = {MANIFEST: MAX_JSON_BYTES, ARRAYS: MAX_ARRAY_BYTES}


def checked_name(name: str) -> str:
    """Return the name of a model, or refuse what is none."""
    part = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
    if not re.fullmatch(f"{part}/{part}", name):
        raise ToppoError(f"{name!r} is not the name of a model on the hub: it must be owner/name")
    return name


def import_hub() -> Any:
    """Import the hub's client."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise ToppoError(f"the hub needs the package huggingface_hub: {install_command('hub')}") from error
    return huggingface_hub


def refuse_without_token() -> None:
    """Refuse to go on if nobody is logged in."""
    if not import_hub().get_token():
        raise ToppoError("the hub takes a model only with a token: type `hf auth login`, or set HF_TOKEN")


@contextmanager
def downloaded(address: str) -> Iterator[Path]:
    """Fetch a model's checkpoint into a temporary folder; nothing else of the model is read."""
    name = checked_name(address.removeprefix(PREFIX))
    hub = import_hub()
    with _naming_the_hub(name):
        try:
            for file in hub.snapshot_download(name, allow_patterns=list(MAX_BYTES), dry_run=True):
                _refuse_large(address, file.filename, file.file_size)
        except hub.errors.DryRunError:
            pass  # the hub cannot be reached: what is in the cache is used
        cached = Path(hub.snapshot_download(name, allow_patterns=list(MAX_BYTES)))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for file_name in MAX_BYTES:
            if not (cached / file_name).is_file():
                raise ToppoError(f"{address} is not a model of toppo: it has no {file_name}", NO_INPUT)
            _refuse_large(address, file_name, (cached / file_name).stat().st_size)
            shutil.copyfile(cached / file_name, folder / file_name)  # the cache is made of links
        yield folder


def upload(folder: Path, name: str, private: bool) -> str:
    """Make the model if there is none, upload the known files of a folder, and return its address."""
    hub = import_hub()
    with _naming_the_hub(name):
        api = hub.HfApi()
        address = str(api.create_repo(name, private=private, exist_ok=True))
        api.upload_folder(
            repo_id=name,
            folder_path=folder,
            allow_patterns=[*MAX_BYTES, CARD, CURVE],
            commit_message="Upload a policy trained with toppo",
        )
    return address


def _refuse_large(address: str, file_name: str, size: int) -> None:
    if size > MAX_BYTES[file_name]:
        raise ToppoError(
            f"{address}: {file_name} has {size:,} bytes, but at most {MAX_BYTES[file_name]:,} are read", BAD_DATA
        )


@contextmanager
def _naming_the_hub(name: str) -> Iterator[None]:
    """Turn what the client raises into a sentence."""
    try:
        yield
    except ToppoError:
        raise
    except Exception as error:  # of several libraries below the client
        kind = type(error).__name__
        known = {
            "RepositoryNotFoundError": "there is no such model, or you may not see it",
            "GatedRepoError": "its owner has not let you in",
            "LocalTokenNotFoundError": "there is no token: type `hf auth login`, or set HF_TOKEN",
            "LocalEntryNotFoundError": "the hub cannot be reached, and there is no copy in the cache",
            "ConnectError": "the hub cannot be reached",
        }
        raise ToppoError(f"{PREFIX}{name}: {known.get(kind) or f'{kind}: {first_line(error)}'}", IO_ERROR) from error
