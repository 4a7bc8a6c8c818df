"""Published versions: laid in place, sealed by the manifest, signed, and read again with distrust.

`python -m slipway.registry MODEL VERSION` reads a version again. No operator and no trigger is known here.
"""
