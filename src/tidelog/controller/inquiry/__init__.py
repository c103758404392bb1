"""Asking brokers how far their logs go, where only that can tell who should lead."""
