"""Ray, started and stopped in a thread: both take seconds, which other work can use.

On Linux the processes of Ray are killed when the thread ends that started them: so it is one thread
that starts Ray, waits, and stops it.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from study import execution
from study.design import Study


class RayThread:
    """Ray on this machine, or a cluster at `address`, for one study.

    Args:
        address: of a running cluster; None: Ray is started here.
        study: whose code a cluster's workers are given.
    """

    def __init__(self, address: str | None, study: Study) -> None:
        self._address, self._study = address, study
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ray")
        self._started: Future[None] | None = None

    def begin(self) -> None:
        """Begin to start Ray, and do not wait for it."""
        if self._started is None:
            # The import of Ray, half a second, is the thread's, too.
            self._started = self._thread.submit(
                lambda: execution.start_ray(self._address, self._study)
            )

    def wait(self) -> None:
        """Wait until Ray can be used; raises what `start_ray` raises."""
        self.begin()
        assert self._started is not None
        self._started.result()

    def end(self) -> None:
        """Begin to stop what was started, and do not wait for it."""
        started, self._started = self._started, None
        if started is not None:
            self._thread.submit(lambda: started.exception() or execution.stop_ray())

    def close(self) -> None:
        """Stop what was started, and wait for it."""
        self.end()
        self._thread.shutdown()
