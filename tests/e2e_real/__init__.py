"""The main job on real agent CLIs against a fake model on loopback, and the endurance tests: `make e2e`."""
