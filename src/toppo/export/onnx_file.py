"""A policy as one ONNX file: observations as the environment gives them in, its actions out."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from toppo.agent import Agent
from toppo.errors import ToppoError, install_command
from toppo.export.portable import Portable, portable
from toppo.rundir.layout import write_bytes

OPSET = 17
IR_VERSION = 8  # the one that belongs to opset 17, so that older runtimes read the file
INPUT_DTYPES = {"numbers": "float32", "choices": "int64", "image": "uint8"}


def write_onnx(agent: Agent, path: Path) -> None:
    """Write the deterministic policy of an agent."""
    write_bytes(path, onnx_bytes(portable(agent)))


def onnx_bytes(policy: Portable) -> bytes:
    """Return the ONNX model of a policy."""
    try:
        import onnx
    except ImportError as error:
        raise ToppoError(
            f"ONNX files need the package onnx: {install_command('onnx')}, or use --format numpy"
        ) from error
    model = _Graph(onnx, policy).model()
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


class _Graph:
    """The nodes of a model while they are put together."""

    def __init__(self, onnx: Any, policy: Portable) -> None:
        self.onnx = onnx
        self.about = policy.about
        self.arrays = policy.arrays
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def model(self) -> Any:
        helper = self.onnx.helper
        inputs = [(part["name"], INPUT_DTYPES[part["kind"]], part["shape"]) for part in self.about["inputs"]]
        scores = self._network()
        if self.about["masked"]:
            inputs.append(("action_mask", "bool", [self._action_size()]))
            scores = self.node("Where", "action_mask", scores, self.constant("never", np.float32(-np.inf)))
        action = self.about["action"]
        self.node("Identity", self._action(scores), out="action")
        values = [self._value(name, dtype, shape) for name, dtype, shape in inputs]
        outputs = [self._value("action", action["dtype"], action["shape"])]
        if action["discrete"]:
            self.node("Identity", scores, out="scores")
            outputs.append(self._value("scores", "float32", [self._action_size()]))
        graph = helper.make_graph(self.nodes, "policy", values, outputs, list(self.constants.values()))
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="toppo")
        helper.set_model_props(model, {"toppo": json.dumps({k: self.about[k] for k in ("env", "algo", "steps")})})
        return model

    def _action_size(self) -> int:
        return int(self.arrays[f"layer{self.about['layers'] - 1}.b"].size)

    def _value(self, name: str, dtype: str, shape: list[int]) -> Any:
        helper = self.onnx.helper
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["batch", *shape])

    def node(self, kind: str, *inputs: str, out: str = "", **attributes: object) -> str:
        name = out or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, name: str, value: Any = None) -> str:
        """One of the policy's arrays, or another value under a name of its own."""
        if name not in self.constants:
            array = np.asarray(self.arrays[name] if value is None else value)
            self.constants[name] = self.onnx.numpy_helper.from_array(array, name)
        return name

    def cast(self, x: str, dtype: str) -> str:
        return self.node("Cast", x, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def reshape(self, x: str, *shape: int) -> str:
        name = "shape_" + "_".join(map(str, shape))
        return self.node("Reshape", x, self.constant(name, np.array(shape, np.int64)))

    def dense(self, name: str, x: str) -> str:
        product = self.node("MatMul", x, self.constant(f"{name}.w"))
        return self.node("Add", product, self.constant(f"{name}.b"))

    def activate(self, x: str) -> str:
        kind = self.about["activation"]
        if kind in ("silu", "gelu"):  # x sigmoid(z); this opset has a node for neither
            return self.node("Mul", x, self.node("Sigmoid", x if kind == "silu" else self._gelu_argument(x)))
        return self.node(kind.capitalize(), x)

    def _gelu_argument(self, x: str) -> str:
        """The z of gelu(x) = x sigmoid(z), which is its approximation by tanh."""
        cube = self.node("Mul", x, self.node("Mul", x, x))
        sum_ = self.node("Add", x, self.node("Mul", cube, self.constant("gelu_cube", np.float32(0.044715))))
        return self.node("Mul", sum_, self.constant("gelu_scale", np.float32(2 * np.sqrt(2 / np.pi))))

    def _network(self) -> str:
        about = self.about
        numbers = [self._numbers(part) for part in about["inputs"] if part["kind"] != "image"]
        pictures = [part for part in about["inputs"] if part["kind"] == "image"]
        features = [self._encode(part["name"], image) for part, image in zip(pictures, about["images"], strict=True)]
        if numbers:
            x = self.node("Concat", *numbers, axis=1)
            x = self.node("Mul", self.node("Sub", x, self.constant("mean")), self.constant("inv_std"))
            bounds = (self.constant("bottom", np.float32(-10)), self.constant("top", np.float32(10)))
            x = self.node("Clip", x, *bounds)
            for number in range(about["vector"]):
                x = self.activate(self.dense(f"vector{number}", x))
            features.append(x)
        x = self.node("Concat", *features, axis=1)
        for number in range(about["layers"]):
            x = self.activate(x) if number else x
            x = self.dense(f"layer{number}", x)
        return x

    def _numbers(self, part: dict[str, Any]) -> str:
        name = part["name"]
        size = int(np.prod(part["shape"]))
        flat = self.reshape(name, -1, size)
        if part["kind"] == "numbers":
            return flat
        entries = self.node("Gather", flat, self.constant(f"{name}.number"), axis=1)
        return self.cast(self.node("Equal", entries, self.constant(f"{name}.value")), "float32")

    def _encode(self, name: str, about: dict[str, Any]) -> str:
        x = self.node("Transpose", self.cast(name, "float32"), perm=about["axes"])
        x = self.reshape(x, -1, about["channels"], *about["sides"])
        for number, layer in enumerate(about["convolutions"]):
            weights = f"{about['name']}.conv{number}"
            (top, bottom), (left, right) = layer["pads"]
            strides = [layer["stride"]] * 2
            inputs = (x, self.constant(f"{weights}.w"), self.constant(f"{weights}.b"))
            x = self.node("Relu", self.node("Conv", *inputs, strides=strides, pads=[top, left, bottom, right]))
        x = self.node("Flatten", x, axis=1)
        return self.node("Relu", self.dense(f"{about['name']}.dense", x))

    def _action(self, scores: str) -> str:
        action = self.about["action"]
        if action["discrete"]:
            pads = self.constant("one_more", np.array([0, 0, 0, 1], np.int64))
            padded = self.node("Pad", scores, pads, self.constant("never", np.float32(-np.inf)))
            grouped = self.node("Gather", padded, self.constant("choices"), axis=1)
            best = self.node("ArgMax", grouped, axis=2, keepdims=0)
            found = self.cast(self.node("Add", best, self.constant("starts")), action["dtype"])
        else:
            x = self.node("Min", self.node("Max", scores, self.constant("box.low")), self.constant("box.high"))
            x = self.cast(x, str(self.arrays["box.factor"].dtype))
            x = self.node("Add", self.node("Mul", x, self.constant("box.factor")), self.constant("box.shift"))
            x = self.cast(x, action["dtype"])
            found = self.node("Min", self.node("Max", x, self.constant("box.least")), self.constant("box.most"))
        return self.reshape(found, -1, *action["shape"])
