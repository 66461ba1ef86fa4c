"""Heads that learn from the trunk and never act: a forward, and the explicit backward that writes its gradient row."""
