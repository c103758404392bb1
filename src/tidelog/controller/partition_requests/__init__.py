"""What is asked of the controller about leaders, ISRs and replicas."""
