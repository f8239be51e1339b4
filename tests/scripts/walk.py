#!/usr/bin/env python3
"""Walks a site by its links with another parser than the crawler's and prints what is there as JSON Lines.

usage: walk.py SEED [MAX_DEPTH]

One line a URL that answers 200 below the seed's host and port, breadth first: url, depth, sha256 of the body, kind.
It has no politeness and no robots.txt: it is for a server of our own on loopback.
"""

import hashlib
import http.client
import json
import sys
from collections import deque
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin, urlsplit

UNRESERVED = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class Links(HTMLParser):
    """The targets of a, area, iframe and frame elements, and of link elements that lead to pages."""

    def __init__(self, url):
        super().__init__()
        self.base = url
        self.found = []

    def handle_starttag(self, tag, attributes):
        names = dict(attributes)
        if tag == "base" and names.get("href"):
            self.base = urljoin(self.base, names["href"])
        target = None
        if tag in ("a", "area"):
            target = names.get("href")
        elif tag in ("iframe", "frame"):
            target = names.get("src")
        elif tag == "link" and names.get("href"):
            kinds = (names.get("rel") or "").lower().split()
            wanted = {"next", "prev"} & set(kinds)
            if wanted or ("alternate" in kinds and "stylesheet" not in kinds):
                target = names["href"]
        if target is not None:
            self.found.append(urljoin(self.base, target.strip()))


def canonical(url):
    """Without fragment, escapes in upper case, unreserved characters unescaped."""
    url = urldefrag(url)[0]
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        return None
    out, at = [], 0
    while at < len(url):
        if url[at] == "%" and len(url) > at + 2:
            try:
                letter = chr(int(url[at + 1 : at + 3], 16))
            except ValueError:
                letter = None
            if letter is not None:
                out.append(letter if letter in UNRESERVED else url[at : at + 3].upper())
                at += 3
                continue
        out.append(url[at])
        at += 1
    return "".join(out)


def main():
    seed = sys.argv[1]
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    host = urlsplit(seed).netloc
    connection = http.client.HTTPConnection(host, timeout=20)
    queue, seen = deque([(seed, 0)]), {seed}
    while queue:
        url, depth = queue.popleft()
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", target, headers={"User-Agent": "walk"})
        answer = connection.getresponse()
        body = answer.read()
        kind = (answer.getheader("Content-Type") or "").split(";")[0]
        if answer.status in (301, 302, 303, 307, 308):
            follow = canonical(urljoin(url, answer.getheader("Location")))
            if follow and urlsplit(follow).netloc == host and follow not in seen:
                seen.add(follow)
                queue.appendleft((follow, depth))
            continue
        if answer.status != 200:
            continue
        row = {"url": url, "depth": depth, "digest": hashlib.sha256(body).hexdigest(), "kind": kind}
        print(json.dumps(row))
        if kind != "text/html" or depth >= most:
            continue
        links = Links(url)
        links.feed(body.decode("utf-8", "replace"))
        links.close()
        for link in links.found:
            link = canonical(link)
            if link and urlsplit(link).netloc == host and link not in seen:
                seen.add(link)
                queue.append((link, depth + 1))


main()
