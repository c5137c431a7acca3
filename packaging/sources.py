# SPDX-License-Identifier: MIT
"""Reads packaging/sources: what the wheel is built from besides gpuleak."""

import pathlib
import typing

TABLE = pathlib.Path(__file__).with_name("sources")


class Source(typing.NamedTuple):
    name: str
    version: str
    sha256: str
    license: str  # an SPDX expression
    urls: list


def read_sources():
    sources = []
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            name, version, sha256, license_, *urls = line.split()
            sources.append(Source(name, version, sha256, license_.replace("|", " OR "), urls))
    return sources
