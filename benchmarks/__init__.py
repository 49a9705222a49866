"""How fast the product is, each figure beside a reference measured in the same run."""
