"""Runs a policy that `toppo export --format numpy` wrote. It needs NumPy alone, and may be copied anywhere.

policy = Policy("policy.npz")
actions = policy(observations)  # a batch; one observation: policy(observation[None])[0]
"""

import json
from typing import Any

import numpy as np

ACTIVATIONS: dict[str, Any] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
    "silu": lambda x: x * (0.5 + 0.5 * np.tanh(0.5 * x)),
    "gelu": lambda x: x * (0.5 + 0.5 * np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
}


class Policy:
    """The most likely action for each observation of a batch."""

    def __init__(self, path: Any) -> None:
        with np.load(path) as file:
            self.arrays = dict(file)
        self.about: dict[str, Any] = json.loads(str(self.arrays.pop("about")))

    def __call__(self, observation: Any, action_masks: Any = None) -> np.ndarray:
        """Observations as the environment gives them, with a batch axis first -> actions [B, ...]"""
        arrays = self.arrays
        numbers = []
        images = []
        for part in self.about["inputs"]:
            value = observation
            for key in part["path"]:
                value = value[key]
            array = np.asarray(value)
            if array.shape[1:] != tuple(part["shape"]):
                raise ValueError(f"{part['name']} has shape {array.shape}, but must be (batch, *{part['shape']})")
            flat = array.reshape(len(array), -1)
            if part["kind"] == "choices":
                flat = flat[:, arrays[part["name"] + ".number"]] == arrays[part["name"] + ".value"]
            if part["kind"] == "image":
                images.append(array)
            else:
                numbers.append(flat)
        rows = len(array)
        x = np.concatenate([np.zeros((rows, 0)), *numbers], axis=1)
        x = np.clip((x - arrays["mean"]).astype(np.float32) * arrays["inv_std"], -10, 10)
        if images:
            found = [self._encode(*pair) for pair in zip(self.about["images"], images, strict=True)]
            for number in range(self.about["vector"]):
                x = self._activate(self._dense(f"vector{number}", x))
            x = np.concatenate([*found, x], axis=1)
        for number in range(self.about["layers"]):
            x = self._activate(x) if number else x
            x = self._dense(f"layer{number}", x)
        return self._action(x, action_masks)

    def _activate(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(ACTIVATIONS[self.about["activation"]](x))

    def _dense(self, name: str, x: np.ndarray) -> np.ndarray:
        w, b = self.arrays[name + ".w"], self.arrays[name + ".b"]
        return np.asarray(x @ w + b)

    def _encode(self, about: dict[str, Any], image: np.ndarray) -> np.ndarray:
        x = image.transpose(about["axes"]).reshape(len(image), about["channels"], *about["sides"]).astype(np.float32)
        for number, layer in enumerate(about["convolutions"]):
            w = self.arrays[f"{about['name']}.conv{number}.w"]
            b = self.arrays[f"{about['name']}.conv{number}.b"]
            x = np.pad(x, ((0, 0), (0, 0), *layer["pads"]))
            patches = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
            patches = patches[:, :, :: layer["stride"], :: layer["stride"]]
            x = np.tensordot(patches, w, ((1, 4, 5), (1, 2, 3))) + b
            x = np.maximum(x, 0).transpose(0, 3, 1, 2)
        x = self._dense(about["name"] + ".dense", x.reshape(len(x), -1))
        return np.asarray(np.maximum(x, 0))

    def _action(self, x: np.ndarray, masks: Any) -> np.ndarray:
        arrays = self.arrays
        action = self.about["action"]
        shape = (len(x), *action["shape"])
        if not action["discrete"]:
            x = np.clip(x, arrays["box.low"], arrays["box.high"])
            x = (x * arrays["box.factor"] + arrays["box.shift"]).astype(action["dtype"])
            return np.asarray(np.clip(x, arrays["box.least"], arrays["box.most"]).reshape(shape))
        if masks is not None:
            x = np.where(np.asarray(masks, bool), x, -np.inf)
        scores = np.pad(x, ((0, 0), (0, 1)), constant_values=-np.inf)[:, arrays["choices"]]
        return np.asarray((scores.argmax(-1) + arrays["starts"]).astype(action["dtype"]).reshape(shape))
