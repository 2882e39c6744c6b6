import os
import threading

import numpy as np
import pytest

from toppo.collect.child import receive, send


def through_a_pipe(header, arrays):
    source, target = os.pipe()
    try:
        thread = threading.Thread(target=send, args=(target, header, arrays))
        thread.start()
        answer = receive(source)
        thread.join()
        return answer
    finally:
        os.close(source)
        os.close(target)


def test_messages_arrive_as_they_were_sent():
    rng = np.random.default_rng(0)
    arrays = {
        "large": rng.normal(size=(300, 400)),
        "empty": np.zeros((0, 3), np.float32),
        "transposed": np.arange(6, dtype=np.int32).reshape(2, 3).T,
    }
    header, received = through_a_pipe({"do": "restore", "n_steps": 3, "text": "ä"}, arrays)
    assert header == {"do": "restore", "n_steps": 3, "text": "ä"}
    assert list(received) == list(arrays)
    for name, a in arrays.items():
        assert (a.dtype, a.shape) == (received[name].dtype, received[name].shape)
        assert np.array_equal(a, received[name])


def test_a_closed_pipe_is_the_end():
    source, target = os.pipe()
    os.write(target, b"\x10\x00\x00\x00{")  # the beginning of a message
    os.close(target)
    with pytest.raises(EOFError):
        receive(source)
    os.close(source)
