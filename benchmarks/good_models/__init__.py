"""How many good models the gates refuse: families of models made here, each released twice through the real gates."""
