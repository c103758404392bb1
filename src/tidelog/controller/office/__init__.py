"""The office of the controller: who holds it, and what is done in it."""
