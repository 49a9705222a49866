"""The parts of policies and predictors: orders, policies around other policies, bundles, lines of nodes, histories."""
