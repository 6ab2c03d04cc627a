"""Extend mkdocs: links to files outside of docs/, and formulas that need no script."""

import html
import re

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+)([^)\s]+)\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
PRIME = re.compile(r"<msup>(<mi>[^<]*</mi>)<mi>(&#x0203[234];)</mi></msup>")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Return the page with its links to files outside of docs/ as HTML, which mkdocs does not check.

    site/ lies beside docs/, so the same relative link is right on a site that is opened from the checkout. If the site
    has a `repo_url`, the links lead to the files there.
    """
    depth = page.file.src_uri.count("/")
    base = f"{config.repo_url.rstrip('/')}/blob/main/" if config.repo_url else "../" * (depth + 1)

    def outside(link: re.Match[str]) -> str:
        if link[2].count("..") <= depth:
            return link[0]
        return f'<a href="{base}{link[3]}">{link[1]}</a>'

    return OUTSIDE.sub(outside, markdown)


def on_page_content(content: str, **_: object) -> str:
    """Return the page with its formulas as MathML, which browsers draw without a script."""

    def drawn(formula: re.Match[str]) -> str:
        mathml = convert(html.unescape(formula[2]), display="block" if formula[1] == "div" else "inline")
        return PRIME.sub(r'<mrow>\1<mo lspace="0" rspace="0">\2</mo></mrow>', mathml)

    return FORMULA.sub(drawn, content)
