"""Is A better than B, by how much, and was the contest fair?

The package reads one tidy table of results and answers the claims of a study with verdicts.
It knows nothing of how the results were made: `analysis.report.write_report` takes a table from
anywhere. The protocol that it follows is written down in docs/statistics.md.
"""

__version__ = "0.1.0"
