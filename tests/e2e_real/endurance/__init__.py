"""Programs that the endurance tests run as processes of their own."""
