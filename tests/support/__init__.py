"""What several tests share: a file a thing."""
