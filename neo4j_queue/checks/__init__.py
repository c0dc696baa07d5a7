"""What is looked at before work begins, and whenever a person asks what is wrong."""
