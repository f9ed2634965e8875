"""Where can the runs in MLflow be browsed, without telling a password?"""

from __future__ import annotations

import pytest

from study.tracking import browse_command, browse_url


@pytest.mark.parametrize(
    ("uri", "url"),
    [
        ("", "http://127.0.0.1:5000"),  # `mlflow.db` here, shown by `mlflow ui`
        ("sqlite:////data/mlflow.db", "http://127.0.0.1:5000"),
        ("http://server:8080/", "http://server:8080"),
        ("https://me:secret@server/ml?token=secret", "https://server/ml"),
        ("postgresql://me:secret@host/db", "http://127.0.0.1:5000"),
        ("databricks", None),
    ],
)
def test_the_ui_is_the_servers_or_the_one_that_the_printed_line_starts(monkeypatch, uri, url):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert browse_url() == url


def test_the_line_to_open_a_server_has_no_password(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@server/ml")
    assert browse_command() == "open https://server/ml"
