"""Golden requests over streams: a model that is asked over streams is judged by answers that were read."""
