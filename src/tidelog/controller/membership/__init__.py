"""Being a member of the cluster: a session in the registry, and a registration that lives as long."""
