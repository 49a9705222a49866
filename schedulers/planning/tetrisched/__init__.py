"""TetriSched and alsched (Tumanov et al., EuroSys 2016, SoCC 2012): wishes in STRL and the best starts for them."""
