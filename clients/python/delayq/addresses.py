"""Parses Redis URLs of several hosts, as delayq's programs do. No I/O."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from .errors import InvalidArgument
from .protocol import URLS


@dataclass(frozen=True)
class Address:
    """The content of a URL of several hosts. The login is for Redis, not for Sentinels."""

    kind: str
    tls: bool
    nodes: tuple[tuple[str, int], ...]
    username: str | None
    password: str | None
    service: str = ""
    db: int = 0


def read_address(url: str) -> Address | None:
    """Parses a URL of several hosts; None for other URLs. Errors contain neither user nor password."""
    scheme = re.match(r"(rediss?)\+(sentinel|cluster)://", url)
    if not scheme:
        return None
    kind, place = scheme[2], url[scheme.end() :]
    _, what, port, shape, _ = URLS[kind]
    place, _, query = place.partition("?")
    if "@" in query:
        raise InvalidArgument(f"url has an @ behind a ?: write %3F for a ? in a password; {shape}")
    login, _, place = place.rpartition("@")
    hosts, _, path = place.partition("/")
    if not hosts:
        raise InvalidArgument(f"url names no {what}: {shape}")
    nodes = tuple(nodes_of(hosts, what, port))
    for n, (host, number) in enumerate(nodes):
        if (host, number) in nodes[:n]:
            raise InvalidArgument(f"url names the {what} {host}:{number} twice")
    pairs = [pair for pair in query.split("&") if pair]
    if kind == "cluster" and path not in ("", "0"):
        raise InvalidArgument("url names a database; a Redis Cluster has the database 0 alone")
    if kind == "cluster" and pairs:
        raise InvalidArgument("url has a parameter in its query; the URL of a cluster has none")
    username, password = login_of(login)
    if kind == "cluster":
        return Address(kind, scheme[1] == "rediss", nodes, username, password)
    return Address(kind, scheme[1] == "rediss", nodes, username, password, _service(path), _database(pairs))


def nodes_of(hosts: str, what: str, port: int) -> Iterator[tuple[str, int]]:
    for text in hosts.split(","):
        node = re.fullmatch(r"(?:\[([\w.:-]+)\]|([\w.-]+))(?::(\d{1,5}))?", text, re.A)
        number = int(node[3] or port) if node else 0
        if not node or not 0 < number < 65536:
            raise InvalidArgument(f"`{text[:80]}` is not a {what}; write host:port, an IPv6 address in brackets")
        yield node[1] or node[2], number


def _service(service: str) -> str:
    if not service:
        raise InvalidArgument(
            "url names no service: the name of the master in `sentinel monitor` belongs behind the hosts, /service"
        )
    if not re.fullmatch(r"[A-Za-z0-9._-]+", service):
        raise InvalidArgument(f"`{service[:80]}` cannot be the name of a service: A-Z a-z 0-9 . - _ (a database is ?db=N)")
    return service


def _database(pairs: list[str]) -> int:
    db = 0
    if len(pairs) > 1 and all(pair.startswith("db=") for pair in pairs):
        raise InvalidArgument("url has db twice")
    for pair in pairs:
        key, _, value = pair.partition("=")
        if key != "db":
            raise InvalidArgument("url has an unknown parameter in its query; one with sentinels has: db")
        if not re.fullmatch(r"\d{1,5}", value, re.A):
            raise InvalidArgument("db is not the number of a database")
        db = int(value)
    return db


def login_of(login: str) -> tuple[str | None, str | None]:
    try:
        if re.search(r"[/#\[\]]|%(?![0-9A-Fa-f]{2})", login):
            raise ValueError
        username, _, password = (unquote_to_bytes(part).decode() for part in login.partition(":"))
    except ValueError:
        raise InvalidArgument(
            "the user or password in url cannot be read: write @ : / ? # % as %40 %3A %2F %3F %23 %25"
        ) from None
    return username or None, password or None
