"""What goes wrong with a broker because somebody wants to see what then happens: silence between brokers or towards clients, answers that
are errors or late, a disk that is full. Only a broker that was started for tests (`tidelog.faults.enable`) does any of it.
"""

from tidelog.broker.faults.board import FAULTS_MAX, Fault, Faults, WrongFault
from tidelog.broker.faults.disk import FillableDisk
from tidelog.broker.faults.troubled import troubled

__all__ = ["FAULTS_MAX", "Fault", "Faults", "FillableDisk", "WrongFault", "troubled"]
