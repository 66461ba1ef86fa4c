"""One file per loss; each returns its value and the gradient it sends into the network's activations."""
