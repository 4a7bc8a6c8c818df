"""The pods that serve a revision: what is open on a candidate after weight 0, and whether the cluster took one away."""
