"""Do passwords, tokens and keys stay where the user has put them?"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from in_process import TRAINING, without_ray, write_study

from study import session
from study.commands import call
from study.masking import masked, masked_output
from study.run import main
from study.tracking import browse_command

SECRET = "hunter2-and-more"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"postgresql://me:{SECRET}@host/db", "postgresql://me:***@host/db"),
        (f"see https://me:{SECRET}@server/ml and on", "see https://me:***@server/ml and on"),
        (f"https://{SECRET}@server/ml", "https://***@server/ml"),
        (f"s3://KEY:{SECRET}@bucket/prefix", "s3://KEY:***@bucket/prefix"),
        ("mysql://me:p@ss:w@host/db", "mysql://me:***@host/db"),
        (f"http://server/?token={SECRET}&page=2", "http://server/?token=***&page=2"),
        (f"x?X-Amz-Signature={SECRET}", "x?X-Amz-Signature=***"),
        (f"http://proxy?aws_secret_access_key={SECRET}#a", "http://proxy?aws_secret_access_key=***#a"),
        ("mail me@host.org or see http://host/a@b", "mail me@host.org or see http://host/a@b"),
        ("tau_plus=0.1 and seed=7", "tau_plus=0.1 and seed=7"),
    ],
)  # fmt: skip
def test_addresses_keep_all_but_their_secrets(text, shown):
    assert masked(text) == shown


@pytest.mark.parametrize(
    "name", ["MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "AWS_SECRET_ACCESS_KEY",
             "WANDB_API_KEY", "RAY_AUTH_TOKEN"]
)  # fmt: skip
def test_secrets_of_the_environment_are_known(monkeypatch, name):
    monkeypatch.setenv(name, SECRET)
    assert masked(f"refused: {SECRET}!") == "refused: ***!"
    monkeypatch.setenv(name, "abc")
    assert masked("abcdef") == "abcdef"


def test_what_libraries_print_is_masked_too(capsys):
    def chatty() -> int:
        print("http://me:secret@host")
        sys.stderr.write("http://me:secret@proxy\n")
        return 0

    assert call(chatty, [], name="chatty") == 0
    said = capsys.readouterr()
    assert said.out == "http://me:***@host\n"
    assert "secret@" not in said.err
    assert "http://me:***@proxy" in said.err


def test_the_streams_are_the_users_again(capsys):
    before = sys.stdout
    with masked_output():
        assert sys.stdout is not before
        assert sys.stdout.encoding == before.encoding
    assert sys.stdout is before


def test_a_databases_password_is_not_in_the_line_that_opens_it(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"postgresql://me:{SECRET}@host/db")
    assert browse_command().endswith("postgresql://me:***@host/db")


@pytest.mark.slow
def test_no_file_of_a_study_and_no_line_of_it_has_a_secret(tmp_path, monkeypatch, capsys):
    """Secrets in the tracking address, a proxy and the environment; a function that prints them."""
    monkeypatch.chdir(tmp_path)
    without_ray(monkeypatch)
    write_study(tmp_path)
    raising = TRAINING + (
        "    import os\n"
        "    if run.seed == 3:\n"
        "        raise OSError('cannot reach ' + os.environ['HTTPS_PROXY'])\n"
    )
    Path("my_training.py").write_text(raising)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"https://me:{SECRET}@127.0.0.1:9/ml")
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{SECRET}@127.0.0.1:9")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setattr(session, "Tracker", failing_tracker(session.Tracker))
    assert main(["own.yaml"]) == 1
    said = capsys.readouterr()
    assert "cannot reach http://me:***@127.0.0.1:9" in said.err
    assert SECRET not in said.out + said.err
    record = json.loads(Path("studies/own/runs/confirm/wide/default/0003.json").read_text())
    assert record["outcome"] == "failed"
    for file in (f for f in Path("studies").rglob("*") if f.is_file()):
        assert SECRET.encode() not in file.read_bytes(), file


def failing_tracker(base):
    """One whose server refuses, with its address in the error."""

    class Failing(base):
        def __init__(self, *args, warn, **options) -> None:
            super().__init__(*args, **options)
            warn(f"MLflow cannot be written (https://me:{SECRET}@127.0.0.1:9/ml refused)")

    return Failing
