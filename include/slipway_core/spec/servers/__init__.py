"""The release file's servers: the predictor that KServe is asked for, and what follows for it from the rest."""
