"""How what has landed starts its release: `find` lists the versions, `start` starts one of them."""
