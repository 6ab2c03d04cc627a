"""The page: one HTML file that holds its data, style and script, and asks nobody for anything."""

import base64
import hashlib
import json
import re
from datetime import datetime
from html import escape
from importlib.resources import files
from pathlib import Path

import adaste
from adaste.paper.index import Collection
from adaste.paper.report.contents import Plain, contents

STYLES = ("colours.css", "page.css", "controls.css", "tables.css", "charts.css", "sheets.css", "screens.css")
SCRIPTS = (
    "dom.js",
    "data.js",
    "labels.js",
    "drawing.js",
    "ranges.js",
    "reading.js",
    "chart.js",
    "saving.js",
    "legend.js",
    "curves.js",
    "tables.js",
    "runs.js",
    "histogram.js",
    "sheets.js",
    "others.js",
    "functions.js",
    "page.js",
)
"""In the order they are read: each uses the ones before it."""


def page(collection: Collection, root: Path, made: datetime) -> str:
    """Return the page about the runs of `root`, with the time it was made."""
    about = {"version": adaste.__version__, "made": made.isoformat(timespec="seconds"), "root": root.resolve().name}
    return _assembled({**contents(collection, root), "about": about})


def _assembled(data: Plain) -> str:
    style = "\n".join(map(_asset, STYLES))
    code = "\n".join(map(_asset, SCRIPTS))
    script = f'(() => {{\n"use strict";\n{code}\n}})();'
    parts = {"policy": escape(_policy(style, script)), "style": style, "contents": as_script(data), "script": script}
    # All at once: what a part holds is never taken for the place of another.
    return re.sub(
        "|".join(f"{{{{{name}}}}}" for name in parts), lambda found: parts[found[0][2:-2]], _asset("page.html")
    )


def as_script(data: Plain) -> str:
    """Return JSON that is safe inside of a script element."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _policy(style: str, script: str) -> str:
    """Return the policy that lets browsers run this script only, and load nothing."""
    return f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data: blob:"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _asset(name: str) -> str:
    return (files("adaste.paper.report") / "assets" / name).read_text(encoding="utf-8")
