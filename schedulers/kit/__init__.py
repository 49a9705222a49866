"""What policies and predictors are written with: orders, policies around others, bundles, lines of nodes, histories."""
