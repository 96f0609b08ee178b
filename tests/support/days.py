"""Past days for jobs that score by the day."""

import time
from datetime import UTC, datetime, timedelta
from functools import cache

from pipelines.core.windows import Window


@cache
def last_five(lasting_seconds: float) -> list[str]:
    """The five days before today, named when a process first asks; waits for midnight UTC if today ends sooner.

    Across a midnight a sixth window would end in the middle of a test.
    """
    left = (Window.at(datetime.now(UTC), "day").end - datetime.now(UTC)).total_seconds()
    if left < lasting_seconds:
        time.sleep(left + 1)
    today = datetime.now(UTC)
    return [(today - timedelta(days=back)).strftime("%Y-%m-%d") for back in (5, 4, 3, 2, 1)]
