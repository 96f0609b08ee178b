"""Past days, for jobs that score by the day."""

import time
from datetime import UTC, datetime, timedelta
from functools import cache

from pipelines.core.windows import Window


@cache
def last_five(lasting_seconds: float) -> list[str]:
    """The five days before today, fixed at the first call in a process.

    If today ends (UTC) within `lasting_seconds`, wait for midnight first; otherwise a sixth window would end during a
    test.
    """
    seconds_left = (Window.at(datetime.now(UTC), "day").end - datetime.now(UTC)).total_seconds()
    if seconds_left < lasting_seconds:
        time.sleep(seconds_left + 1)
    today = datetime.now(UTC)
    return [(today - timedelta(days=back)).strftime("%Y-%m-%d") for back in (5, 4, 3, 2, 1)]
