"""What all requests to the controller have in common."""
