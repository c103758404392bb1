"""What is done to a simulated cluster: the menu of faults, plans of them, how a seed draws one, and who performs it."""

from __future__ import annotations

from tidelog.simulation.faults.doses import Doses
from tidelog.simulation.faults.menu import MENU, Amount, Damage, Family, FaultKind, Lasting, Targets, describe_menu
from tidelog.simulation.faults.plan import Fault, FaultPlan, PlanError

__all__ = [
    "MENU",
    "Amount",
    "Damage",
    "Doses",
    "Family",
    "Fault",
    "FaultKind",
    "FaultPlan",
    "Lasting",
    "PlanError",
    "Targets",
    "describe_menu",
]
