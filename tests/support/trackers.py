"""What a tracker holds, read from its own store: (step, values), in the order in which a reader shows them."""

import struct
from pathlib import Path

BLOCK = 32768  # of W&B's file, a log of LevelDB's kind

Point = tuple[int, dict[str, float]]


def tensorboard(root: Path, project: str) -> list[Point]:
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    shown: list[Point] = []
    for path in sorted((root / "tensorboard").iterdir()):
        data = path.read_bytes()
        while len(data) > 12:
            (size,) = struct.unpack("<Q", data[:8])
            event = Event.FromString(data[12 : 12 + size])
            data = data[16 + size :]
            if event.session_log.status == SessionLog.START:  # a reader drops this step and all later ones
                shown = [point for point in shown if point[0] < event.step]
            elif event.summary.value:
                shown.append((event.step, {v.tag: v.simple_value for v in event.summary.value}))
    return shown


def wandb(root: Path, project: str) -> list[Point]:
    """The sessions in the order in which `wandb sync` sends them."""
    from wandb.proto import wandb_internal_pb2

    shown = []
    for path in sorted((root / "wandb").glob("offline-run-*/run-*.wandb")):
        for record in _records(path.read_bytes()):
            found = wandb_internal_pb2.Record.FromString(record)
            if found.WhichOneof("record_type") == "history":
                values = {
                    item.nested_key[0] if item.nested_key else item.key: item.value_json for item in found.history.item
                }
                step = found.history.step.num
                shown.append((step, {k: float(v) for k, v in values.items() if not k.startswith("_")}))
    return shown


def _records(data: bytes) -> list[bytes]:
    at, found, part = 7, [], b""  # after the header of the file
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        size, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        part += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            found.append(part)
            part = b""
    return found


def mlflow(root: Path, project: str) -> list[Point]:
    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name(project)
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    shown: list[Point] = []
    for name in run.data.metrics:
        shown += [(m.step, {name: m.value}) for m in client.get_metric_history(run.info.run_id, name)]
    return shown


def trackio(root: Path, project: str) -> list[Point]:
    import json
    import sqlite3

    from trackio.utils import TRACKIO_DIR  # as it was when trackio was imported

    with sqlite3.connect(TRACKIO_DIR / f"{project}.db") as store:
        rows = store.execute("select step, metrics from metrics order by id").fetchall()
    return [(step, json.loads(values)) for step, values in rows]


POINTS = {"tensorboard": tensorboard, "wandb": wandb, "mlflow": mlflow, "trackio": trackio}
