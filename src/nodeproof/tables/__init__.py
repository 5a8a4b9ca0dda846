"""Tables of edges, features and labels: text, Parquet or DuckDB, by one set of rules.

`reading` is where the command line and `datasets` enter; `edge_columns` decides about headers and
columns, whoever reads the table; `convert` writes graphs too large for memory to a folder. Nothing
here is public. May import `inputs`, `storage` and what is below them.
"""
