"""The page at /docs: every path of the service, with a form to try it. It loads nothing from other hosts."""

from starlette.responses import HTMLResponse

from pipelines.serving import pages

HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>bertline API</title>
<link rel="icon" href="page/icon.svg">
<link rel="stylesheet" href="page/style.css">
<script type="module" src="page/docs.js"></script>
</head>
<body class="docs">
<header><a class="name" href="./">bertline</a><nav><a href="./">Try a model</a></nav></header>
<main>
<h1>API</h1>
<p id="about"></p>
<p>For programs: <a href="openapi.json">openapi.json</a></p>
<noscript><p class="problem">This page needs JavaScript; openapi.json has what it shows.</p></noscript>
<form id="access" class="card" hidden>
<label>API key
<input id="key" type="password" required autocomplete="off" pattern="\\s*[!-~]+\\s*"></label>
<button>Use the key</button>
</form>
</main>
</body>
</html>
"""


def response() -> HTMLResponse:
    """The page as a response, with the policy of all pages."""
    return HTMLResponse(HTML, headers=pages.HEADERS)
