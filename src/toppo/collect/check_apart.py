"""The look at an environment before training, in a process of its own: what crashes there is named, and ends no run."""

from toppo.collect.child import Child, too_long
from toppo.envs import Source, Spaces
from toppo.envs.spaces_json import spaces_from_json
from toppo.errors import EnvironmentFault


def check_env_in_subprocess(source: Source, timeout: float) -> tuple[Spaces, list[str]]:
    """``toppo.envs.check.check_env`` in another process; ``timeout`` is in seconds for each call of the environment."""
    child, call = Child(), ""

    def fault(what: str) -> EnvironmentFault:
        return EnvironmentFault(f"{source.name}: {call or 'making it'} in the look before training: {what}")

    try:
        child.send({"look": True, "address": source.address})
        while True:
            limit = timeout if call else float("inf")
            if not child.answers_within(limit):
                child.kill()
                raise fault(too_long(timeout, child))
            answer = child.receive(fault)
            if "call" not in answer:
                return spaces_from_json(answer["spaces"]), answer["notes"]
            call = answer["call"]
    finally:
        child.close()
