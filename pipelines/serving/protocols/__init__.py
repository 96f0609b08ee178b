"""The protocols of the service, a file each: `routes(catalogue)` returns what the file adds to the application."""
