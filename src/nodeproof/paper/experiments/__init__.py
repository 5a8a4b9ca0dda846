"""Every experiment of the paper, and some beyond: a registry of panels, run cell by cell.

`registry` lists what is run, `cells` runs one setting with one seed, `claims` compares results with
what the paper says, `figures` and `summary` show them. For `nodeproof reproduce`. May import the
library and the rest of `paper`.
"""

from nodeproof.paper.experiments import registry
from nodeproof.paper.experiments.cells import Cell, run, run_cell
from nodeproof.paper.experiments.methods import METHODS, SOURCES, Method, Outcome
from nodeproof.paper.experiments.panels import PANELS, Axis, Curve, Panel, register, select
from nodeproof.paper.experiments.reproduction import Reproduction, reproduce
from nodeproof.paper.experiments.results import Results, Series

__all__ = [
    "METHODS",
    "PANELS",
    "SOURCES",
    "Axis",
    "Cell",
    "Curve",
    "Method",
    "Outcome",
    "Panel",
    "Reproduction",
    "Results",
    "Series",
    "register",
    "registry",
    "reproduce",
    "run",
    "run_cell",
    "select",
]
