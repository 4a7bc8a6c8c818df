"""CloudFormation templates of what Slipway needs on AWS, rendered from the policies in include/manifests.

The standard library alone. Each stack is one file here; nothing in it repeats a policy. Forbidden: clients of AWS, and
everything else of this repository. The templates are applied with the AWS command line (docs/infrastructure.md).
"""
