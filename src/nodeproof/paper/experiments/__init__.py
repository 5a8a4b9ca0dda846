"""Every experiment of the paper, and some beyond: a registry of panels, run cell by cell.

A `Panel` is what a figure shows; its `Cell`s are the fits behind it. `reproduce` runs the cells
that are missing, and writes tables, figures, verdicts on the paper's claims, and a summary.
"""

from nodeproof.paper.experiments import registry
from nodeproof.paper.experiments.cells import Cell, run, run_cell
from nodeproof.paper.experiments.methods import METHODS, SOURCES, Method, Outcome
from nodeproof.paper.experiments.panels import PANELS, Axis, Curve, Panel, register, select
from nodeproof.paper.experiments.plots import accuracy_curves, phase_diagram
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
    "accuracy_curves",
    "phase_diagram",
    "register",
    "registry",
    "reproduce",
    "run",
    "run_cell",
    "select",
]
