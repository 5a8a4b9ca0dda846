"""Tables of edges, features and labels, from text, Parquet or DuckDB, by one set of rules.

For the command line and `datasets`. May import `inputs`, `storage` and what is below them.
"""
