"""The check of an environment before training, in a process of its own: a crash there is named, and ends no run."""

from toppo.collect.child import Child
from toppo.envs import Source, Spaces
from toppo.envs.spaces_json import spaces_from_json
from toppo.errors import EnvironmentFault


def check_env_in_subprocess(source: Source, timeout: float) -> tuple[Spaces, list[str]]:
    """Run ``toppo.envs.check.check_env`` in another process; ``timeout`` is in seconds for each call."""
    child = Child()
    call = ""

    def fault(what: str) -> EnvironmentFault:
        return EnvironmentFault(f"{source.name}: {call or 'making it'} in the check before training: {what}")

    try:
        child.send({"check": True, "address": source.address})
        while True:
            answer = child.receive(fault, timeout if call else float("inf"))
            if "call" not in answer:
                return spaces_from_json(answer["spaces"]), answer["notes"]
            call = answer["call"]
    finally:
        child.close()
