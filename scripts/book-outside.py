#!/usr/bin/env python3
"""A preprocessor of mdBook: links that lead out of docs/ become links into the repository."""

import json
import posixpath
import re
import sys

REPOSITORY = "https://github.com/delayq/delayq/blob/main/"


def outside(page, text):
    """The text with those links rewritten; `page` is its path in docs/."""

    def rewritten(link):
        path, anchor = link[1], link[2] or ""
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), path))
        return link[0] if target.startswith("docs/") else f"]({REPOSITORY}{target}{anchor})"

    return re.sub(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)", rewritten, text)


def walk(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            if chapter.get("path"):
                chapter["content"] = outside(chapter["path"], chapter["content"])
            walk(chapter["sub_items"])


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    walk(book.get("sections") or book.get("items") or [])
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
