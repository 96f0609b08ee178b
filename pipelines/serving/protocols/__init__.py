"""The protocols of the service, a file each: `routes(catalogue)` returns what the file adds to the application.

A protocol whose paths share a `PREFIX` may have `refusal(problem)`: its response of an error before a route.
"""
