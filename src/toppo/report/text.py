"""Names and counts as they stand on a page; text of untrusted files is made safe for it."""

from collections.abc import Sequence
from hashlib import sha256

MAX_NAME = 60


def clean(text: object, max_letters: int = MAX_NAME) -> str:
    """Return the text on one line, printable, and cut to ``max_letters``."""
    plain = "".join(c if c.isprintable() else "?" for c in str(text)[: max_letters + 1])
    return plain if len(plain) <= max_letters else plain[: max_letters - 1] + "…"


def unique_name(text: object) -> str:
    """Return a clean name; one that had to change ends in a digest, so that two names stay two."""
    name = str(text)
    plain = clean(name)
    if plain == name:
        return plain
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{clean(name, MAX_NAME - 7)}#{digest[:6]}"


def first_names(names: Sequence[str]) -> str:
    """Return the first five names."""
    return ", ".join(map(clean, names[:5])) + (" and others" if len(names) > 5 else "")


def span(counts: Sequence[int]) -> str:
    """Return "3", or "1 to 3"."""
    return " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))


def counted(noun: str, *counts: int) -> str:
    """Return "1 run", "3 runs" or "1 to 3 runs"."""
    return f"{span(counts)} {noun}{'' if max(counts) == 1 else 's'}"


def reason(error: Exception) -> str:
    """Return why a file could not be read."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
