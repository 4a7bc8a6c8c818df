"""How a release begins: facts are read under the lock, `slipway_core.admission` decides, the record is opened."""
