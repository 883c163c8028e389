"""Check the built site: every link, anchor and picture is there, and nothing is fetched from afar.

``python docs/links.py site`` ends with 1 and a line for each thing that is broken. The builder
checks links between pages; pictures, links of the theme, and addresses that a reader's browser
would load from the network are found here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements that a browser loads something for."""
LOADED_LINKS = {"stylesheet", "icon", "preload", "preconnect", "modulepreload", "manifest"}
_IN_STYLES = re.compile(r"(?:@import\s+|url\()[\"']?(https?:)?//", re.IGNORECASE)


class Page(HTMLParser):
    """The anchors of a page, and what it points to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one element says."""
        own = {name: value or "" for name, value in attrs}
        self.anchors |= {own[name] for name in ("id", "name") if name in own}
        if tag == "a" and "href" in own:
            self.links.append(own["href"])
        wanted = tag != "link" or LOADED_LINKS & set(own.get("rel", "").split())
        if tag in LOADING and wanted and own.get(LOADING[tag]):
            self.loaded.append(own[LOADING[tag]])


@cache
def read(path: Path) -> Page:
    """A page, once."""
    return Page(path.read_text("utf-8"))


def problems(site: Path) -> Iterator[str]:
    """What is broken, a line each."""
    for path in sorted(site.rglob("*.html")):
        if path.name != "404.html":  # its addresses begin at the root of a server
            for wrong in _problems_of(site, path):
                yield f"{path.relative_to(site)}: {wrong}"
    for path in sorted(site.rglob("*.css")):
        if _IN_STYLES.search(path.read_text("utf-8")):
            yield f"{path.relative_to(site)}: loads something from the network"


def _problems_of(site: Path, path: Path) -> Iterator[str]:
    """What is broken in a page."""
    found = read(path)
    for address in found.loaded:
        if urlsplit(address).netloc:
            yield f"loads {address} from the network"
    for address in [*found.links, *found.loaded]:
        if (wrong := _broken(site, path, address)) is not None:
            yield f"{address}: {wrong}"


def _broken(site: Path, page: Path, address: str) -> str | None:
    """What is wrong with a link, if anything."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return None
    target = page if not parts.path else (page.parent / unquote(parts.path)).resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site.resolve()) or not target.exists():
        return "nothing is there"
    anchor = unquote(parts.fragment)
    if target.suffix == ".html" and anchor not in read(target).anchors:
        return f"no anchor #{anchor}"
    return None


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    pages = len(list(folder.rglob("*.html")))
    found = list(problems(folder)) if pages else [f"no page in {folder}"]
    sys.stderr.writelines(f"docs: {line}\n" for line in found)
    if not found:
        sys.stdout.write(f"{pages} pages, every link and picture is there\n")
    sys.exit(bool(found))
