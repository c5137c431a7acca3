# SPDX-License-Identifier: MIT
"""Makes the software bill of materials (CycloneDX 1.5, JSON): gpuleak, its bundled libraries, and
the hashes of its binaries. The same input makes the same text."""

import hashlib
import time
import uuid

from sources import read_sources

# Used for building alone: no byte of them is in the wheel.
BUILD_ONLY = ("opencl-headers",)


def _component(source):
    return {
        "type": "library",
        "bom-ref": "pkg:generic/%s@%s" % (source.name, source.version),
        "name": source.name,
        "version": source.version,
        "purl": "pkg:generic/%s@%s" % (source.name, source.version),
        "scope": "excluded" if source.name in BUILD_ONLY else "required",
        "licenses": [{"expression": source.license}],
        "externalReferences": [
            {"type": "source-distribution", "url": url,
             "hashes": [{"alg": "SHA-256", "content": source.sha256}]} for url in source.urls],
    }


def _file(name, data):
    return {"type": "file", "bom-ref": "file:" + name, "name": name,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]}


def make_sbom(release, machine, epoch, files):
    """FILES is {name: (bytes, mode)}. Returns the bill as a dict."""
    own = "pkg:pypi/gpuleak@" + release
    sources = read_sources()
    binaries = [_file(name, data) for name, (data, mode) in sorted(files.items()) if mode & 0o100]
    seed = own + machine + "".join(entry["hashes"][0]["content"] for entry in binaries)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, seed).urn,
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
            "component": {"type": "application", "bom-ref": own, "name": "gpuleak",
                          "version": release, "purl": own,
                          "licenses": [{"expression": "MIT"}]},
            "properties": [{"name": "machine", "value": machine}],
        },
        "components": [_component(source) for source in sources] + binaries,
        "dependencies": [{"ref": own, "dependsOn": [
            "pkg:generic/%s@%s" % (source.name, source.version) for source in sources
            if source.name not in BUILD_ONLY]}],
    }
