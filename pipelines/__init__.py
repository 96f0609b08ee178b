"""All the work of bertline: from text to dependable models."""

import os

# Whoever imports from here passes these lines first: some libraries write, or send, as soon as they are imported.
NO_TELEMETRY = {
    "DO_NOT_TRACK": "1",  # Prefect's clients
    "DVC_NO_ANALYTICS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "ORT_DISABLE_TELEMETRY": "1",  # ONNX Runtime's; its disable_telemetry_events() comes after its import has written
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
}
for name, value in NO_TELEMETRY.items():
    os.environ.setdefault(name, value)
