"""The labelling app: look at doubtful labels, correct them, fit again, in the browser.

`nodeproof label DIR` starts it. Labels go to an append-only journal at once (`journal`); the state
that all windows share is in `session`; what a page is told about a node in `nodes`, and about the
map in `maps`. `server` answers requests from this machine alone.
"""
