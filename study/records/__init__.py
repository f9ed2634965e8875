"""Records: jobs, their endings, and the rows of the tables that are made of them."""

from study.records.environment import (
    Environment,
    environment_here,
    nearest_differences,
    processor,
)
from study.records.files import digest, write_table, write_whole
from study.records.job import (
    Job,
    Record,
    confirmation_key,
    job_from,
    key_start,
    record_from,
    work,
)
from study.records.ledger import Ending, Ledger
from study.records.rows import RESULT_COLUMNS, RUN_COLUMNS, result_rows, run_row

__all__ = [
    "RESULT_COLUMNS",
    "RUN_COLUMNS",
    "Ending",
    "Environment",
    "Job",
    "Ledger",
    "Record",
    "confirmation_key",
    "digest",
    "environment_here",
    "job_from",
    "key_start",
    "nearest_differences",
    "processor",
    "record_from",
    "result_rows",
    "run_row",
    "work",
    "write_table",
    "write_whole",
]
