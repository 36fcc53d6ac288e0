"""One mechanism each. They turn what happens into facts, decide nothing and log nothing."""
