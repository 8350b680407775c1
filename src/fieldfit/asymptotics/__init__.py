"""asymptotics."""
