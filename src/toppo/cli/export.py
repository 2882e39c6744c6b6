"""``toppo export``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from toppo import agent
from toppo.cli.flags import flag, parse
from toppo.display.console import Terminal
from toppo.errors import CANNOT_CREATE, ToppoError
from toppo.rundir.files import refuse_to_write

SUFFIXES = {"onnx": ".onnx", "numpy": ".npz"}


@dataclass(frozen=True, kw_only=True)
class ExportFlags:
    """Write a trained policy in a file that needs no toppo."""

    run: Annotated[Path, flag("Run directory, or what Agent.save wrote.", "RUN")]
    format: Annotated[Literal["onnx", "numpy"], flag("onnx: a model for any ONNX runtime; numpy: arrays.")] = "onnx"
    out: Annotated[Path | None, flag("File to write (default: RUN/policy.onnx or RUN/policy.npz).", "PATH")] = None


def export(arguments: list[str]) -> None:
    """Write a trained policy in a format that needs no toppo."""
    given = parse("export", ExportFlags, arguments)
    suffix = SUFFIXES[given.format]
    out = given.out or given.run / f"policy{suffix}"
    if out.suffix != suffix:
        raise ToppoError(f"--out is {out}, but a file of --format {given.format} must end in {suffix}")
    trained = agent.load(given.run)
    console = Terminal()
    refuse_to_write(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if given.format == "onnx":
            from toppo.export.onnx_file import write_onnx

            write_onnx(trained, out)
            console.say(f"wrote {out}")
        else:
            from toppo.export.numpy_file import write_numpy

            console.say(f"wrote {out} and {write_numpy(trained, out)}, which runs it")
    except OSError as error:
        raise ToppoError(f"{out} cannot be written ({error.strerror}): choose another --out", CANNOT_CREATE) from error
