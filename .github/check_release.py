"""Check that a tag may be released: python .github/check_release.py v0.1.0

All packages must have the version that the tag names, the changelog must date it, and all projects and the
documentation must have the address of the repository.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = {
    "src/adaste/__init__.py": r'^__version__ = "(.*)"$',
    "runtime/src/adaste_runtime/__init__.py": r'^__version__ = "(.*)"$',
    "zoo/adaste_zoo/__init__.py": r'^__version__ = "(.*)"$',
    "web/package.json": r'^ *"version": "(.*)",?$',
}
"""Where each package has its version."""
PROJECTS = ("pyproject.toml", "runtime/pyproject.toml", "zoo/pyproject.toml")


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """Return all reasons why the tag must not be released; none if it may."""
    found = []
    version = tag.removeprefix("v")
    if version == tag:
        found.append(f"the tag must be v and a version, as v0.1.0, got {tag}")
    for path, pattern in VERSIONS.items():
        (stated,) = re.findall(pattern, (root / path).read_text(), re.MULTILINE)
        if stated != version:
            found.append(f"{path} has version {stated}, the tag is {tag}: set it there, or make another tag")
    for path in PROJECTS:
        if "Repository" not in tomllib.loads((root / path).read_text())["project"].get("urls", {}):
            found.append(f"{path} has no Repository under [project.urls]: write the repository's public address there")
    if not re.search(r"^repo_url: \S", (root / "mkdocs.yml").read_text(), re.MULTILINE):
        found.append("mkdocs.yml has no repo_url: write the repository's public address there, links to files need it")
    heading = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$"
    if not re.search(heading, (root / "CHANGELOG.md").read_text(), re.MULTILINE):
        found.append(f"CHANGELOG.md has no heading '## {version} (YYYY-MM-DD)': write the day of the release there")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if found := problems(sys.argv[1]):
        sys.exit("\n".join(found))
