"""Studies of what was counted: other rules, other cuts, other galleries."""
