"""The protocols of the service, a file each: `routes(catalogue)` returns what the file adds to the application.

A protocol may have `PREFIXES` of its paths and, for these, `refusal(problem)`: its response of an error that occurs
before a route, and `ERROR`: the schema of the body of its errors.
"""
