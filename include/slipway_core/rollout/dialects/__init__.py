"""KServe's ways to split traffic, each in its own folder: `protocol` says what one is, `registry` names them."""
