"""Does a study run on a cluster that it did not start, with its code shipped, and lose a node?

The cluster is real: two Ray nodes on loopback, each with its own raylet and one core.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from in_process import TRAINING

import study
from study.design.study import Resources
from study.execution.ray_cluster import start_ray
from study.execution.resources import Share, share
from study.run import main
from study.spec.load import load_study

ROOT = Path(study.__file__).parents[1]
BUILT_IN = """
name: shared
trial: {dataset: digits}
arms: {contrastive: {}, debiased_pos: {loss: debiased_pos}}
confirm: {seeds: 2}
"""
OWN = """
name: shared
workload: my_training:train
metrics:
  val/error:  {better: lower, unit: fraction}
  test/error: {better: lower, unit: fraction}
trial: {epochs: 40}
arms:
  narrow: {width: 4}
  wide:   {width: 8}
search:
  trials_per_arm: 2
  space: {rate: {low: 0.1, high: 0.9}}
confirm: {seeds: 2}
resources: {retries: 2}
"""
# A second for each training, which is long enough to be interrupted.
SLOW = TRAINING.replace("    for epoch", "    import time\n    for epoch").replace(
    "        metrics = ", "        time.sleep(0.025)\n        metrics = "
)

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def cluster() -> Iterator:
    """A head node and a worker node that know nothing of where this repository lies."""
    from ray.cluster_utils import Cluster

    # Sockets lie below it, and a socket's path may not be long: not pytest's folder.
    folder = tempfile.mkdtemp(prefix="ray-")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONPATH", raising=False)
        patch.chdir("/")
        nodes = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "num_gpus": 0, "temp_dir": folder},
        )
        nodes.add_node(num_cpus=1, num_gpus=0, node_name="second")
    yield nodes
    nodes.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_workers_of_a_cluster_run_the_code_that_the_driver_shipped(cluster, tmp_path, monkeypatch):
    """Before an installed copy, which there is on this machine.

    A driver started in a checkout is another matter: Ray gives its working directory to workers
    that can see it, and that is the same code.
    """
    import ray

    monkeypatch.chdir(tmp_path)
    (tmp_path / "shared.yaml").write_text(BUILT_IN)
    start_ray(cluster.address, load_study(tmp_path / "shared.yaml"))
    try:
        assert share(Resources()) == Share(1, 0.0, 2)

        @ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
        def where() -> tuple[str, list[str]]:
            import importlib

            time.sleep(0.5)  # else one node takes both
            found = [importlib.import_module(n) for n in ("study", "contrastive", "analysis")]
            import analysis.rendering  # noqa: F401  (its templates travel too)

            return ray.get_runtime_context().get_node_id(), [m.__file__ for m in found]

        answers = ray.get([where.remote() for _ in range(2)])
    finally:
        ray.shutdown()
    assert len({node for node, _ in answers}) == 2
    for _, files in answers:
        for file in files:
            assert "py_modules_files" in file
            assert not file.startswith(str(ROOT))


@pytest.mark.slow
def test_a_study_goes_on_when_one_of_its_nodes_is_killed(cluster, tmp_path):
    """SIGKILL to a raylet: its training moves to the other node, and all is done once."""
    (tmp_path / "shared.yaml").write_text(OWN)
    (tmp_path / "my_training.py").write_text(SLOW)
    process = subprocess.Popen(
        [sys.executable, "-m", "study.run", "shared.yaml", "--address", cluster.address],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT), "MLFLOW_TRACKING_URI": ""},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    folder = tmp_path / "studies" / "shared"
    try:
        deadline = time.monotonic() + 60
        while not list((folder / "runs").rglob("*.json")):  # both nodes are at work
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (second,) = cluster.worker_nodes
        raylet = second.all_processes["raylet"][0].process.pid
        os.kill(raylet, signal.SIGKILL)
        out, err = process.communicate(timeout=80)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "2 at a time" in out
    rows = pd.read_csv(folder / "runs.csv")
    assert (rows.status == "finished").all()
    assert (rows.epochs == 40).all()
    at = rows[["phase", "arm", "seed", "trial"]].apply(tuple, axis=1)
    assert len(at) == len(set(at)) == 4 + 4
    assert rows.mlflow_run_id.is_unique
    curves = pd.read_csv(folder / "results.csv")
    curves = curves[curves.metric == "val/error"]
    assert (curves.groupby(["arm", "seed"]).epoch.apply(list).map(len) == 40).all()


@pytest.mark.slow
def test_an_address_where_no_cluster_answers_is_told_in_two_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shared.yaml").write_text(OWN)
    (tmp_path / "my_training.py").write_text(SLOW)
    assert main(["shared.yaml", "--address", "127.0.0.1:1"]) == 2
    told = capsys.readouterr().err.strip()
    assert told.startswith("Ray cannot be started at 127.0.0.1:1")
    assert len(told.splitlines()) == 2
