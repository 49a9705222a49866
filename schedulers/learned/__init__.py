"""Parts of policies that learn: observations, the protocol of questions, and networks in numpy that answer."""
