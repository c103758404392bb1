"""What is asked of the controller about topics and settings."""
