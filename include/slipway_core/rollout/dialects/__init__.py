"""KServe's ways to split traffic, each in a folder of its own: `protocol` says what one is, `registry` names them."""
