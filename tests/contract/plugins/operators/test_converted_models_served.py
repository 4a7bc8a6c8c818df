"""What the converters make, published and loaded into a real Triton, answers there as its source does."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton_http
from numpy.typing import NDArray
from tritonclient.utils import np_to_triton_dtype

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway.operators.convert import ChooseVariantOperator
from slipway_core.bucket_layout import repository_paths
from slipway_core.publishing.manifest import Manifest
from slipway_core.publishing.variants import variant_names, with_variant
from slipway_core.spec.conversion.parity import ParityRule
from slipway_pod.parity.outputs import compare_output
from slipway_rules.parity import Rule
from slipway_sandbox.services.triton import TritonServer
from tests.support.examples import nightly
from tests.support.release.release_steps import CONTEXT, Release, staging_server
from tests.support.serving.converted_models import CASES, QUEUE_DELAY_S, Case, Trained
from tests.support.store.connections import aws_connection, make_bucket
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

Arrays = dict[str, NDArray[Any]]
# Another case has the same precision, or a release of tests/e2e converts and serves it.
_OTHERS_OF_A_KIND = ("onnx-fp16", "onnx-int8-dynamic", "pytorch")
NAMES = [nightly(name) if name in _OTHERS_OF_A_KIND else name for name in CASES]


class _Server(TritonServer):
    """A server with a cache of responses, whose log tells of warm-ups."""

    def argv(self) -> list[str]:
        return [*super().argv(), "--cache-config=local,size=4194304", "--log-verbose=1"]


@dataclass(frozen=True)
class Served:
    """A model that is converted, published and loaded.

    `measured` has the result of each variant's conversion, `chosen` names the one that is published.
    """

    release: Release
    trained: Trained
    manifest: Manifest
    measured: Mapping[str, dict[str, Any]]
    chosen: str

    @property
    def name(self) -> str:
        """What it is called on the server."""
        return self.release.release_run.model

    @property
    def rule(self) -> ParityRule:
        """How far its answers may be from the source's."""
        rules: ParityRule = with_variant(self.release.release_run.spec, self.chosen).conversion.parity
        return rules

    def golden(self, rows: Sequence[int] | slice = slice(None)) -> Arrays:
        """Rows of the golden set, by input."""
        with np.load(io.BytesIO(self.trained.golden)) as arrays:
            return {tensor.name: arrays[tensor.name][rows] for tensor in self.manifest.signature.inputs}


class Staging:
    """One server for all of these tests, and the models that are being brought to it, two at a time."""

    def __init__(self, store: ModelStoreHook, hook: TritonHook, folder: Path, threads: Executor) -> None:
        self.store, self.hook, self.folder = store, hook, folder
        self._threads = threads
        self._begun: dict[str, Future[Served]] = {}

    def begin(self, name: str) -> Future[Served]:
        """Begin to bring the model of a case, once."""
        if name not in self._begun:
            self._begun[name] = self._threads.submit(self._bring, CASES[name])
        return self._begun[name]

    def served(self, name: str) -> Served:
        """The model of a case, once it is there."""
        return self.begin(name).result()

    def _bring(self, case: Case) -> Served:
        """Train, convert each variant, publish the one that is chosen, stage and load it."""
        trained = case.trained(self.folder)
        release = Release(self.store, case.release_file, 1)
        release.land(trained.files, trained.golden)
        measured = {name: release.convert(name) for name in variant_names(release.release_run.spec)}
        (chosen,) = ChooseVariantOperator(task_id="choose", release=release.rendered).run(CONTEXT)
        manifest = release.publish([chosen])
        release.stage()
        return Served(release, trained, manifest, measured, chosen)

    def statistics(self, name: str) -> dict[str, Any]:
        """What the server counted of a model."""
        with triton_http.InferenceServerClient(self.hook.http_address) as client:
            (statistics,) = client.get_inference_statistics(name)["model_stats"]
        return dict(statistics)

    def batch_sizes(self, name: str) -> set[int]:
        """Return how many rows the batches had that the server has run."""
        return {int(one["batch_size"]) for one in self.statistics(name)["batch_stats"]}

    def cache_hits(self, name: str) -> int:
        """Return how many requests the model's cache has answered."""
        return int(self.statistics(name)["inference_stats"]["cache_hit"]["count"])

    def ask_http(self, name: str, inputs: Arrays) -> Arrays:
        """All outputs, over HTTP with binary tensors."""
        with triton_http.InferenceServerClient(self.hook.http_address) as client:
            tensors = [
                triton_http.InferInput(one, list(values.shape), np_to_triton_dtype(values.dtype))
                for one, values in inputs.items()
            ]
            for tensor, values in zip(tensors, inputs.values(), strict=True):
                tensor.set_data_from_numpy(values)
            answer = client.infer(name, tensors)
            return {one["name"]: answer.as_numpy(one["name"]) for one in answer.get_response()["outputs"]}

    def ask_grpc(self, name: str, inputs: Arrays) -> Arrays:
        """All outputs, over gRPC."""
        outputs = [one.name for one in self.hook.signature(name, 1).outputs]
        return self.hook.infer(name, 1, inputs, outputs)


@pytest.fixture(scope="module")
def staging(
    s3_endpoint: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Staging]:
    """The server, with the models of all collected tests on their way to it."""
    with pytest.MonkeyPatch.context() as environment, ThreadPoolExecutor(2) as threads:
        environment.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(s3_endpoint))
        store, folder = ModelStoreHook(make_bucket(s3_endpoint, "served")), tmp_path_factory.mktemp("staging")
        with staging_server(store, folder, _Server) as hook:
            one = Staging(store, hook, folder, threads)
            wanted = [
                getattr(item, "callspec", None) for item in request.session.items if item.path == request.path
            ]
            for call in wanted:
                one.begin(call.params["name"])
            yield one


def assert_as_source(rule: ParityRule, source: Mapping[str, Any], served: Arrays) -> None:
    """Every answer of the source's is the server's, within what the release file allows."""
    assert source.keys() <= served.keys()
    for name, expected in source.items():
        found = as_text(served[name]).reshape(expected.shape)
        if rule.measure == "top_k":
            best = [one.argmax(axis=1) if one.ndim == 2 else one for one in (found, expected)]
            assert (best[0] == best[1]).mean() >= rule.agreement_min
        else:
            limits = Rule(abs_tolerance=rule.abs_tolerance, rel_tolerance=rule.rel_tolerance)
            outcome = compare_output(name, expected, found, limits)
            assert outcome["pass"], outcome


def as_text(values: NDArray[Any]) -> NDArray[Any]:
    """BYTES as text; all else as it is."""
    if values.dtype != np.object_:
        return values
    return np.array([one.decode() for one in values.ravel()]).reshape(values.shape)


@pytest.mark.parametrize("ask", [Staging.ask_http, Staging.ask_grpc], ids=["http", "grpc"])
@pytest.mark.parametrize("name", NAMES)
def test_served_as_the_source_answers(
    staging: Staging, name: str, ask: Callable[[Staging, str, Arrays], Arrays]
) -> None:
    """Converted, published, loaded: a server answers the golden rows as the model's own library does."""
    served = staging.served(name)
    assert_as_source(served.rule, served.trained.answers, ask(staging, served.name, served.golden()))


@pytest.mark.parametrize("name", NAMES)
def test_warmed_up_with_golden_rows(staging: Staging, name: str) -> None:
    """Before it was ready each model answered the golden sample that its release file asks for."""
    model = staging.served(name).name
    log = (staging.folder / "triton.log").read_text()
    assert f"model '{model}' instance {model}_0_0 is running warmup sample 'golden'" in log


@pytest.mark.parametrize("name", ["sklearn-text-labels", "onnx-int8-static"])
def test_requests_are_batched_in_the_preferred_size(staging: Staging, name: str) -> None:
    """Four requests of one row are run as one batch before the delay is over, and each gets its own row's answer."""
    served, numbers = staging.served(name), [3, 60, 70, 120]
    together = staging.ask_grpc(served.name, served.golden(numbers))
    with ThreadPoolExecutor(len(numbers)) as pool:
        rows = [served.golden([number]) for number in numbers]
        before = staging.statistics(served.name)["inference_stats"]["queue"]["ns"]
        alone = list(pool.map(lambda row: staging.ask_http(served.name, row), rows))
    for output, expected in together.items():
        assert np.array_equal(np.concatenate([answer[output] for answer in alone]), expected)
    # A request is counted after it was answered.
    wait_until(lambda: 4 in staging.batch_sizes(served.name), "a batch of four to be counted")
    after = staging.statistics(served.name)
    assert int(after["inference_stats"]["queue"]["ns"]) - int(before) < QUEUE_DELAY_S * 1e9


@pytest.mark.parametrize("name", ["sklearn-text-labels"])
def test_equal_requests_are_answered_from_the_cache(staging: Staging, name: str) -> None:
    """With `response_cache` the second of two equal requests is a hit, texts included."""
    served = staging.served(name)
    first, second = (staging.ask_http(served.name, served.golden(slice(8))) for _ in range(2))
    assert as_text(second["label"]).tolist() == as_text(first["label"]).tolist()
    wait_until(lambda: staging.cache_hits(served.name) > 0, "the hit to be counted")


@pytest.mark.parametrize("name", ["onnx-fastest-of-two"])
def test_fastest_variant_is_served(staging: Staging, name: str) -> None:
    """Of two precisions within their tolerances the faster one is what was published."""
    served = staging.served(name)
    assert set(served.measured) == {"whole", "quick"}
    fastest = min(served.measured, key=lambda one: served.measured[one]["latency"]["p50_ms"])
    file = served.manifest.files[repository_paths(served.name, 1).model_file]
    assert file.sha256 == served.measured[fastest]["model"]["sha256"]
