"""Parses the URL of one Redis. No I/O."""

import re
from typing import Any
from urllib.parse import unquote_to_bytes

from .addresses import login_of, nodes_of
from .errors import InvalidArgument
from .protocol import URLS

_FORMS = "redis://host:port, rediss://, unix:///path, redis+sentinel://hosts/service or redis+cluster://hosts"


def read_single(url: str) -> dict[str, Any]:
    """Parses a URL into options of redis-py. Errors contain neither user nor password."""
    scheme = re.match(r"(rediss?|unix|redis\+unix)://", url)
    if not scheme:
        raise InvalidArgument(f"url is not the URL of a Redis: expected {_FORMS}")
    place, _, query = url[scheme.end() :].partition("?")
    return _unix(place, query) if scheme[1].endswith("unix") else _tcp(place, query, scheme[1] == "rediss")


def _tcp(place: str, query: str, tls: bool) -> dict[str, Any]:
    if "@" in query:
        raise InvalidArgument("url has an @ behind a ?: write %3F for a ? in a password")
    said = _query(query, URLS["single"].query)
    login, _, place = place.rpartition("@")
    username, password = login_of(login)
    hosts, _, path = place.partition("/")
    if not hosts:
        raise InvalidArgument("url names no host: expected redis://host:port")
    (host, port), *others = nodes_of(hosts, URLS["single"].host, URLS["single"].port)
    if others:
        raise InvalidArgument("url names several hosts: write redis+cluster:// for a cluster, redis+sentinel:// for sentinels")
    if path and "db" in said:
        raise InvalidArgument(f"url names the database {path} and the database {said['db']}")
    if path:
        said["db"] = database(path)
    settings = {"host": host, "port": port, "username": username, "password": password, "db": 0} | said
    return settings | {"ssl": True} if tls else settings


def _unix(place: str, query: str) -> dict[str, Any]:
    said = _query(query, URLS["socket"].query)
    login, slash, path = place.partition("/")
    if not slash or login and not login.endswith("@"):
        raise InvalidArgument("url names no path: expected unix:///path, with three slashes")
    username, password = login_of(login[:-1])
    for what, given, also in (("user", username, said.pop("user", None)), ("password", password, said.pop("pass", None))):
        if given is not None and also is not None:
            raise InvalidArgument(f"url has the {what} twice")
        username, password = (given or also, password) if what == "user" else (username, given or also)
    return {"unix_socket_path": "/" + _decoded(path), "username": username, "password": password, "db": 0} | said


def _query(query: str, known: tuple[str, ...]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for pair in filter(None, query.split("&")):
        key, _, value = pair.partition("=")
        if key not in known:
            raise InvalidArgument(
                f"url has no parameter {key[:40]}, but {', '.join(known)}: "
                "other settings are arguments, such as socket_timeout=2"
            )
        if key in said:
            raise InvalidArgument(f"url has {key} twice")
        said[key] = database(value) if key == "db" else _decoded(value)
    return said


def database(number: str) -> int:
    if not re.fullmatch(r"\d{1,5}", number, re.A):
        raise InvalidArgument("db is not the number of a database")
    return int(number)


def _decoded(text: str) -> str:
    try:
        return unquote_to_bytes(text).decode()
    except ValueError:
        raise InvalidArgument("url has a %XX that is no text") from None
