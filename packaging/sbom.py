# SPDX-License-Identifier: MIT
"""Makes the software bill of materials (CycloneDX 1.5, JSON): gpuleak, its bundled libraries, and
the hashes of its binaries. The same input makes the same text."""

import hashlib
import json
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
            {"type": "distribution", "url": url,
             "hashes": [{"alg": "SHA-256", "content": source.sha256}]} for url in source.urls],
    }


def _file(name, data):
    return {"type": "file", "bom-ref": "file:" + name, "name": name,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]}


def _is_binary(name, mode):
    return bool(mode & 0o100) or name.endswith(".so") or ".so." in name


def make_sbom(own, release, machine, epoch, files):
    """OWN is the package's purl, FILES is {name: (bytes, mode)}. Returns the bill as text."""
    sources = read_sources()
    binaries = [_file(name, data) for name, (data, mode) in sorted(files.items())
                if _is_binary(name, mode)]
    seed = own + machine + "".join(entry["hashes"][0]["content"] for entry in binaries)
    return json.dumps({
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
    }, indent=1) + "\n"
