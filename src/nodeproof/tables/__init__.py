"""Tables of edges, features and labels in files: text, Parquet, or on disk through DuckDB.

`reading.read_tables` reads a user's files into one set of nodes, `new_nodes` those of new nodes,
`convert` an edge table too large for memory. The rules for edge tables are in `edge_rules`,
whoever reads them. For `datasets` and the command line; may import `inputs`, `storage` and what
is below them.
"""
