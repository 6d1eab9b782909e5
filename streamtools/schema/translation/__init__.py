"""Translates a tool's schema into a provider's dialect, with the plan that decodes the model's arguments."""
