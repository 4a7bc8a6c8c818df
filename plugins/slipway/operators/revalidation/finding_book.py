"""A model's findings in the object store: one object each, changed only where it is still what was read."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import InputMissingError, StoreUnavailableError, UserError
from slipway_core.operations.layout import findings_prefix
from slipway_core.operations.revalidation.findings import FINDINGS_LIMIT, Finding, finding_key

_ATTEMPTS = 6
_FIRST_PAUSE_S = 0.05


class FindingBook:
    """All findings of one model, open ones and closed ones."""

    def __init__(self, store: ModelStoreHook, model: str) -> None:
        self._store, self._model = store, model

    def all(self) -> dict[str, Finding]:
        """Return the findings by their names.

        :raises UserError: something else lies among them, or too much.
        """
        return {name: one for name, (one, _) in self._read().items()}

    def change(self, changes: Callable[[Mapping[str, Finding]], Mapping[str, Finding]]) -> dict[str, Finding]:
        """Write what `changes` makes of the findings as they lie there; return all of them as they are then.

        Where somebody else has changed one meanwhile, all are read again and asked again.

        :raises StoreUnavailableError: they were changed again and again.
        """
        for attempt in range(_ATTEMPTS):
            known = self._read()
            after = {name: one for name, (one, _) in known.items()}
            wanted = changes(after)
            if all(self._write(name, one, known) for name, one in wanted.items()):
                return {**after, **wanted}
            time.sleep(random.uniform(0.5, 1.0) * _FIRST_PAUSE_S * 2**attempt)
        raise StoreUnavailableError(
            f"the findings of {self._model!r} could not be written",
            expected="no other writer",
            found=f"others, {_ATTEMPTS} times",
            remedy="find out what else writes there",
        )

    def require(self, name: str) -> Finding:
        """Return one finding.

        :raises InputMissingError: there is none of that name.
        """
        known = self.all()
        if name in known:
            return known[name]
        open_ones = ", ".join(sorted(one for one, found in known.items() if found.is_open))
        raise InputMissingError(
            f"there is no finding {name[:100]!r} of {self._model!r}",
            expected=f"one of {open_ones}" if open_ones else "an open finding, but there are none",
            found="none of that name",
            remedy="copy its name from the newest page of model_revalidation",
        )

    def _read(self) -> dict[str, tuple[Finding, str]]:
        prefix = findings_prefix(self._model)
        keys = [entry.key for entry in self._store.entries(prefix, most=FINDINGS_LIMIT + 1)]
        if len(keys) > FINDINGS_LIMIT:
            raise UserError(
                f"there are too many findings of {self._model!r}",
                expected=f"at most {FINDINGS_LIMIT} objects below {prefix}",
                found="more",
                remedy="delete closed ones of old versions",
            )
        found: dict[str, tuple[Finding, str]] = {}
        for key in keys:
            read = self._store.read_with_etag(key, most_bytes=Finding.limit_bytes)
            if read is None:
                continue
            finding = Finding.from_bytes(read[0], self._store.uri(key))
            if (finding.model, finding_key(self._model, finding.name)) != (self._model, key):
                raise UserError(
                    f"{self._store.uri(key)} is a different finding than its name says",
                    expected=key,
                    found=f"{finding.model}: {finding.name}",
                    remedy="find out who wrote it",
                )
            found[finding.name] = (finding, read[1])
        return found

    def _write(self, name: str, finding: Finding, known: Mapping[str, tuple[Finding, str]]) -> bool:
        key, body = finding_key(self._model, name), finding.to_bytes()
        if name not in known:
            return self._store.write_once(key, body)
        before, etag = known[name]
        return before == finding or self._store.replace(key, body, etag)
