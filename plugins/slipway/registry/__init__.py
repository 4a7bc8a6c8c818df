"""Published versions: laid in place, completed by the manifest, signed, and verified.

`python -m slipway.registry MODEL VERSION` reads a version again. No operator and no trigger is known here.
"""
