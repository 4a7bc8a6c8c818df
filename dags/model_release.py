"""
### Brings one version of a model to production, or back

`convert → publish → smoke test → stage → validate → benchmark → (preview → mirror comparison) → (approve) → canary →
(approve) → promote`, and any problem after the first percent of traffic **rolls back automatically**: a bad
verdict, a failed task, a canceled run.

| stage | what it proves |
|---|---|
| convert | the model can be read and converted, and gives the same answers as its source |
| publish | the version is in S3: complete, immutable and with checksums |
| smoke test | on a separate Triton it loads every time, survives boundary inputs, and does not leak memory |
| stage | it loads next to the stable version |
| validate | it has the stable version's signature, and its answers to the golden set are right and agree |
| benchmark | it is fast enough, and not slower than the stable version measured in the same run |
| preview | optional: it answers at a separate address for tests; it has no users |
| mirror comparison | optional: it answers copies of users' requests like the stable version |
| canary | on live traffic, it is no worse than the stable version at the same time |

The release file `include/releases/MODEL.yaml` has the settings; the form below can change the canary's steps for one
run. The record `records/MODEL/VERSION/` in the bucket has every step and every verdict with its figures. Reports are in
`models/MODEL/VERSION/evidence/`.

To stop a release, mark the run as failed: the rollback still runs. Releases of one model never interleave. A freeze or
a closed release window delays the start and each raise (`release_freeze`), but never a rollback.

At the end, `announce` emits an **asset event**, which starts DAGs that are scheduled on
`x-slipway://models/MODEL/live`, `…/rolled-back` or `…/rejected`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Param, TaskGroup, dag

from airflow_provider_triton.operators import TritonUnloadModelOperator
from slipway.dag_header import (
    ON_TRAFFIC,
    OWN_PRIORITY,
    WAY_BACK,
    header,
    model_param,
    releases_dir,
    version_param,
)
from slipway.hooks.triton import STAGING_CONN_ID
from slipway.operators.admission.admit import AdmitReleaseOperator
from slipway.operators.approval import ApproveReleaseOperator
from slipway.operators.benchmark import BenchmarkModelOperator
from slipway.operators.canary import HoldCanaryOperator, ShiftTrafficOperator
from slipway.operators.conclude import ConcludeReleaseOperator
from slipway.operators.convert import ChooseVariantOperator, ConvertModelOperator, ListVariantsOperator
from slipway.operators.mirror_comparison import RunMirrorComparisonOperator
from slipway.operators.operations.announce import AnnounceReleaseOperator
from slipway.operators.preview import ShowCandidateOperator
from slipway.operators.promote import PromoteOperator
from slipway.operators.publish import PublishModelOperator
from slipway.operators.restore import ArmRollbackOperator, RestoreStableOperator
from slipway.operators.smoke_test.run import RunSmokeTestOperator
from slipway.operators.staging import LoadBaselineOperator, LoadCandidateOperator, PrepareStagingOperator
from slipway.operators.validate import ValidateModelOperator
from slipway.pools import STAGING_POOL
from slipway.workflows import MODEL_RELEASE
from slipway_core.spec.conversion.conversion import LONGEST_CONVERSION_S
from slipway_core.spec.pods.settings import LONGEST_STARTUP_S
from slipway_core.spec.smoke_test import LONGEST_SMOKE_TEST_S

PREPARED = "{{ ti.xcom_pull(task_ids='staging.prepare') | tojson }}"
# Once the stable version was loaded, or was left out.
STAGING = "{{ (ti.xcom_pull(task_ids='staging.load_baseline') or ti.xcom_pull(task_ids='staging.prepare')) | tojson }}"
CANDIDATE = "ti.xcom_pull(task_ids='staging.prepare')['candidate']"
SHOWN = "ti.xcom_pull(task_ids='rollout.show_candidate')"
LOAD_TIMEOUT_S = "{{ ti.xcom_pull(task_ids='staging.prepare')['load_timeout_s'] }}"
# Of all loads together `serving.load_timeout_s`, at most three hours, and as much again for getting ready.
LOAD_LIMIT = timedelta(hours=6, minutes=15)
BASELINE = "(ti.xcom_pull(task_ids='staging.prepare')['baseline'] or {})"

PARAMS = {
    "model": model_param(),
    "version": version_param("The version below incoming/MODEL/."),
    "steps": Param(
        None,
        type=["null", "array"],
        items={
            "type": "object",
            "properties": {
                "weight": {"type": "integer", "minimum": 1, "maximum": 99},
                "bake_s": {"type": "integer", "minimum": 1},
            },
            "required": ["weight", "bake_s"],
            "additionalProperties": False,
        },
        title="Canary steps",
        description='Empty: as in the release file. Otherwise [{"weight": 5, "bake_s": 60}, …] with rising weights.',
        section="Canary",
    ),
    "window_s": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        title="Window (s)",
        description="How often the judge decides. Empty: as in the release file.",
        section="Canary",
    ),
    "wait_for_approval": Param(
        False,
        type="boolean",
        title="Wait for approval",
        description="Require approval before the first percent of traffic, even if the release file does not.",
        section="Canary",
    ),
    "force": Param(
        False,
        type="boolean",
        title="Release again",
        description="Release the version even if it was promoted or rolled back before. A rejected version needs "
        "`version_rejection` first.",
    ),
    "reason": Param(
        None,
        type=["null", "string"],
        maxLength=500,
        title="Reason",
        description="The reason for this release; it goes into its record.",
    ),
}


@dag(
    dag_id=MODEL_RELEASE,
    dag_display_name="Model release",
    description="From a trained model in S3 to production traffic on Triton, or back.",
    schedule=None,
    # A run that waits, for a person, a lock or a canary's bake, holds no worker; Airflow's default of 16 runs would let
    # sixteen approvals hold up every other model.
    max_active_runs=1000,
    # No dagrun_timeout: it would skip the teardowns, and the rollback is one. Each task has its own limit.
    params=PARAMS,
    **header(
        __doc__,
        "release",
        retries=2,
        retry_delay=timedelta(seconds=10),
        retry_exponential_backoff=True,
        max_retry_delay=timedelta(minutes=2),
        execution_timeout=timedelta(minutes=15),
        weight_rule=OWN_PRIORITY,
    ),
)
def model_release() -> None:
    """Wire the stages; what each does is its operator's."""
    admit = AdmitReleaseOperator(
        task_id="admit",
        releases_dir=str(releases_dir()),
        bucket="{{ var.value.slipway_bucket }}",
        execution_timeout=timedelta(hours=12),
        # A release file that is minutes old may not have reached every worker.
        retries=6,
        doc_md="Checks the request, takes the model's lock (one release of a model at a time), notes the live "
        "version and opens the record.",
    )
    conclude = ConcludeReleaseOperator(
        task_id="conclude",
        doc_md="Writes the outcome into the record and releases the lock. Always runs, and fails with the reason "
        "unless the version was promoted: a green run is a promoted version.",
    )
    announce = AnnounceReleaseOperator(
        task_id="announce",
        doc_md="Emits the asset events that start other DAGs: the version is live, rolled back or rejected, as its "
        "record says. Always runs; the run's outcome does not depend on it.",
    )

    with TaskGroup("prepare", tooltip="From training's upload to an immutable version"):
        variants = ListVariantsOperator(
            task_id="list_variants",
            doc_md="The conversions in the release file, in parallel; most files have one.",
        )
        convert = ConvertModelOperator.partial(
            task_id="convert",
            deferrable=True,
            # What the release file may ask for, and an hour for queues and the last word.
            execution_timeout=timedelta(seconds=LONGEST_CONVERSION_S + LONGEST_STARTUP_S, hours=1),
            doc_md="A pod for each variant converts the model and compares its answers with the source model's. "
            "Skipped if the version is already published from the same files.",
        ).expand(variant=variants.output)
        choose = ChooseVariantOperator(
            task_id="choose_variant",
            trigger_rule="none_failed",
            doc_md="Chooses the variant to publish from those within their tolerance, or one for each kind of GPU. "
            "Skipped if nothing was converted.",
        )
        publish = PublishModelOperator(
            task_id="publish",
            variants="{{ ti.xcom_pull(task_ids='prepare.choose_variant') | tojson }}",
            execution_timeout=timedelta(hours=6),
            trigger_rule="none_failed",
            doc_md="Writes the Triton repository to S3, the manifest last: the version exists once the manifest "
            "does. Checks a version that is already published.",
        )
        convert >> choose >> publish

    with TaskGroup("staging", tooltip="Before any user sees it"):
        smoke_test = RunSmokeTestOperator(
            task_id="smoke_test",
            deferrable=True,
            poll_interval=1,
            # What the release file may ask for, and an hour for queues and the last word.
            execution_timeout=timedelta(seconds=LONGEST_SMOKE_TEST_S + LONGEST_STARTUP_S, hours=1),
            doc_md="A pod first loads the version on a separate Triton, where a crash affects nobody else. Passes "
            "immediately if the release file omits it.",
        )
        prepare = PrepareStagingOperator(
            task_id="prepare",
            execution_timeout=timedelta(hours=4),
            doc_md="Copies the candidate and the stable version to the staging server's repository.",
        )
        load = LoadCandidateOperator(
            task_id="load_candidate",
            model_name=f"{{{{ {CANDIDATE}['name'] }}}}",
            config=f"{{{{ {CANDIDATE}['config'] | tojson }}}}",
            members=f"{{{{ {CANDIDATE}['members'] | tojson }}}}",
            timeout_s=LOAD_TIMEOUT_S,
            execution_timeout=LOAD_LIMIT,
            doc_md="Loads the candidate through the model-control API.",
        )
        load_baseline = LoadBaselineOperator(
            task_id="load_baseline",
            staging=PREPARED,
            model_name=f"{{{{ {BASELINE}.get('name') }}}}",
            config=f"{{{{ {BASELINE}.get('config') | tojson }}}}",
            members=f"{{{{ {BASELINE}.get('members', []) | tojson }}}}",
            timeout_s=LOAD_TIMEOUT_S,
            execution_timeout=LOAD_LIMIT,
            doc_md="Loads the stable version next to it. Skipped if nothing is live; omitted if the server refuses it.",
        )
        validate = ValidateModelOperator(
            task_id="validate",
            staging=STAGING,
            # The scorer's pod of `kind: custom` is waited for in the triggerer.
            deferrable=True,
            trigger_rule="none_failed_min_one_success",
            execution_timeout=timedelta(hours=2),
            doc_md="Sends golden requests: checks the signature, the answers, and the agreement with the stable "
            "version.",
        )
        benchmark = BenchmarkModelOperator(
            task_id="benchmark",
            staging=STAGING,
            deferrable=True,
            # One at a time on the one staging server.
            pool=STAGING_POOL.name,
            execution_timeout=timedelta(hours=2),
            doc_md="A load generator in a pod measures both versions in turns.",
        )
        unload = TritonUnloadModelOperator(
            task_id="unload",
            model_names="{{ ti.xcom_pull(task_ids='staging.prepare')['model_names'] | tojson }}",
            triton_conn_id=STAGING_CONN_ID,
            doc_md="Unloads both. Always runs.",
        )
        (
            smoke_test
            >> prepare
            >> [load, load_baseline]
            >> validate
            >> benchmark
            >> unload.as_teardown(setups=prepare)
        )

    with TaskGroup("rollout", tooltip="On live traffic"):
        arm = ArmRollbackOperator(
            task_id="arm_rollback",
            execution_timeout=timedelta(hours=2),
            doc_md="From here on, the rollback always runs unless the version was promoted.",
        )
        show = ShowCandidateOperator(
            task_id="show_candidate",
            generation="{{ ti.xcom_pull(task_ids='rollout.arm_rollback') }}",
            execution_timeout=timedelta(hours=2),
            doc_md="If the release file asks for it, starts the candidate at 0 %, at a separate address.",
        )
        mirror_comparison = RunMirrorComparisonOperator(
            task_id="run_mirror_comparison",
            deferrable=True,
            execution_timeout=timedelta(days=7),
            doc_md="If the release file asks for it, a pod sends copies of users' requests to both versions and "
            "compares the answers.",
        )
        approve = ApproveReleaseOperator(
            task_id="approve",
            candidate_url=f"{{{{ {SHOWN}['candidate_url'] }}}}",
            doc_md="Waits for approval if the release file or the form asks for it; the candidate can be tested "
            "meanwhile.",
        )
        shift = ShiftTrafficOperator(
            task_id="shift_traffic",
            generation=f"{{{{ {SHOWN}['generation'] }}}}",
            execution_timeout=timedelta(hours=24),
            retries=3,
            priority_weight=ON_TRAFFIC,
            doc_md="Raises the candidate's share step by step; after every window the judge decides.",
        )
        approve_promotion = ApproveReleaseOperator(
            task_id="approve_promotion",
            before="promotion",
            doc_md="Waits for approval if the release file asks for it; the canary's verdicts are in the text.",
        )
        hold = HoldCanaryOperator(
            task_id="hold",
            until_task_id="rollout.approve_promotion",
            judge="{{ ti.xcom_pull(task_ids='rollout.shift_traffic') }}",
            execution_timeout=timedelta(days=4),
            priority_weight=ON_TRAFFIC,
            doc_md="Continues to watch while a person decides; what it sees counts as before.",
        )
        promote = PromoteOperator(
            task_id="promote",
            priority_weight=ON_TRAFFIC,
            judge="{{ ti.xcom_pull(task_ids='rollout.shift_traffic') }}",
            doc_md="Moves all traffic to the version that has passed; waits while a person has paused the canary.",
        )
        restore = RestoreStableOperator(
            task_id="restore_stable",
            retries=10,
            priority_weight=WAY_BACK,
            execution_timeout=timedelta(hours=1),
            doc_md="Moves all traffic back to the stable version unless the candidate was promoted.",
        )
        (
            arm
            >> show
            >> mirror_comparison
            >> approve
            >> shift
            >> [approve_promotion, hold]
            >> promote
            >> restore.as_teardown(setups=arm)
        )

    admit >> variants
    publish >> smoke_test
    benchmark >> arm
    [unload, restore] >> conclude.as_teardown(setups=admit, on_failure_fail_dagrun=True)
    conclude >> announce.as_teardown(setups=admit)


model_release()
