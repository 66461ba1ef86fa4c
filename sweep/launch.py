"""Runs trials through Ray Tune, quietly. Only this module and `ray_callback.py` import ray.

Tune is handed keys and schedules them; it never restores anything. What is finished, and where a trial goes on, is
read from the experiment folder, so a launch after a crash is an ordinary launch over the keys that are left.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sweep.progress import Progress
from sweep.resources import Share
from sweep.trainable import Body, run_key

OBJECT_STORE_BYTES = 100 * 2**20  # trials exchange keys and a few numbers
QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",  # the old output engine can be silenced
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",  # one local node; no token file in the home folder
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative import paths of gems keep their meaning
    "TUNE_GLOBAL_CHECKPOINT_S": "60",  # nothing is read back from Ray's own state
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the records are ours; one writer less that can fail
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # the worker's guard checks; here one omission would end the sweep
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # see _interruptible
}
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def launch(
    experiment: Path, keys: list[str], share: Share, max_failures: int, progress: Progress, body: Body | None = None
) -> None:
    """Run the trials `keys`; blocks until all ended or were stopped. `progress` hears of their ends and failures.

    A Ray that this process is already connected to is used and left running; otherwise a local one is started.

    An interrupt (Ctrl-C, SIGTERM) stops the trials and returns; what they recorded stays. A second one raises
    KeyboardInterrupt.
    """
    with environment(share):
        import ray

        own = not ray.is_initialized()
        try:
            if own:
                start_ray(share)
            with _interruptible(progress) as stop:  # after Ray, which takes SIGTERM for itself
                _fit(experiment, keys, share, max_failures, progress, stop, body)
        finally:
            if own:
                ray.shutdown()


def _fit(
    experiment: Path,
    keys: list[str],
    share: Share,
    max_failures: int,
    progress: Progress,
    stop: threading.Event,
    body: Body | None,
) -> None:
    from ray import tune

    from sweep.ray_callback import ForwardToProgress, StopOnRequest, attached

    def trial(config: dict[str, Any]) -> None:
        run_key(experiment, config["key"], tune.report, body)

    tuner = tune.Tuner(
        tune.with_resources(trial, {"cpu": share.machine.threads, "gpu": share.gpus}),
        param_space={"key": tune.grid_search(keys)},
        tune_config=tune.TuneConfig(
            metric="objective",
            mode="max",
            reuse_actors=True,
            max_concurrent_trials=share.concurrent,
            trial_name_creator=_key_of,
            trial_dirname_creator=_key_of,
        ),
        run_config=tune.RunConfig(
            name=f"launch-{len(list(experiment.glob('ray/launch-*'))):03d}",
            storage_path=str(experiment / "ray"),
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=max_failures),
            callbacks=[ForwardToProgress()],
            stop=StopOnRequest(),
        ),
    )
    with attached(progress, stop):
        tuner.fit()


def _key_of(trial: Any) -> str:
    return str(trial.config["key"])


def start_ray(share: Share) -> None:
    """Start a local Ray with room for `share.concurrent` trials and nothing to say. Set `environment(share)` first."""
    import ray

    with _children_keep_sigterm_waiting():
        ray.init(
            num_cpus=share.concurrent * share.machine.threads,
            num_gpus=None if share.gpus else 0,
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _system_config={
                # The monitor's error would end the sweep; the kernel's OOM killer ends a worker, and Tune tries again.
                "memory_monitor_refresh_ms": 0,
                "worker_niceness": 0,  # Ray's 15 lets any other process of the machine starve the trials
            },
        )
    logging.getLogger("ray").setLevel(logging.CRITICAL)  # tracebacks go to the trial's log


@contextmanager
def _children_keep_sigterm_waiting() -> Iterator[None]:
    """Processes started inside inherit a blocked SIGTERM, as Ray itself blocks SIGINT in them.

    `timeout`, systemd and batch schedulers signal every process of a job. The driver alone must answer: a Ray whose
    server went first would leave it waiting a minute and then end it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def environment(share: Share) -> Iterator[None]:
    """Variables that workers inherit from this process, taken back afterwards."""
    wanted = QUIET | dict.fromkeys(THREAD_VARIABLES, str(share.machine.threads))
    if not share.gpus:
        wanted["CUDA_VISIBLE_DEVICES"] = ""  # Ray leaves every GPU visible to a trial that asked for none
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _interruptible(progress: Progress) -> Iterator[threading.Event]:
    """The event that an interrupt sets; the second interrupt is an ordinary KeyboardInterrupt."""
    stop = threading.Event()

    def on_signal(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        progress.stopping()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
