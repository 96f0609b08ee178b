"""Stages on the nodes of a Ray cluster: the executor's client, the driver that speaks to Ray, and a node's side."""
