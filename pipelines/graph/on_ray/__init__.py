"""Stages on the nodes of a Ray cluster: the executor's client, Ray's driver, and the command on a node."""
