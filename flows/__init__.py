"""What happens when: Prefect's flows, and the command line."""
