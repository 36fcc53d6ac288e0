"""Tests: `unit` mirrors the code, `property` hunts, `contract` runs over fake and real, `e2e` runs real processes."""
