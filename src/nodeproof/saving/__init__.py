"""Saved models: one ``.npz`` file, no pickle, nothing in it taken on trust.

`model` writes and reads the file, `header` says what its JSON may hold, `arrays` which arrays;
`storage.schema` checks both. `NodeClassifier.save` and `load` use it. May import `fitting`,
`report` and what is below them.
"""
