"""What policies that learn share: what they see, how they are asked, and networks that answer, in numpy."""
