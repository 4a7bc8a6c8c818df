"""Access to EKS without a kubeconfig file: tokens by the pod's own AWS identity, as a client's exec plugin."""
