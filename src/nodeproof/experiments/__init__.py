"""Every experiment of the paper, and some beyond: a registry of panels, run cell by cell."""

from nodeproof.experiments import registry
from nodeproof.experiments.cells import Cell, run_cell
from nodeproof.experiments.methods import METHODS, SOURCES, Method, Outcome
from nodeproof.experiments.panels import PANELS, Axis, Curve, Panel, register, select
from nodeproof.experiments.reproduction import Reproduction, reproduce
from nodeproof.experiments.results import Results, Series
from nodeproof.experiments.runner import run

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
