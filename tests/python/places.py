# SPDX-License-Identifier: MIT
"""Blocks whose lines the author of this program can change, or not: places.py STORY. The package
`binding` calls the driver; run_places.py installs it."""

import sys

import binding


def device_alloc(size):
    return binding.allocate(size)  # @device_alloc


def load(size):
    device_alloc(size)
    device_alloc(2 * size)  # @load


def encode(size):
    device_alloc(size)
    device_alloc(2 * size)  # @encode


def decode(size):
    device_alloc(size)
    device_alloc(32 * size)  # @decode


def package():
    binding.allocate(5000)  # @package


def wrapper():
    for function in (load, encode, decode):
        function(1000)


def cell():
    code = "import binding\nbinding.allocate(6000)\n"
    exec(compile(code, "<ipython-input-3-0a1b2c>", "exec"), {})


def kernel():
    exec(compile("import binding; binding.allocate(6000)", "/tmp/ipykernel_42/77.py", "exec"), {})


globals()[sys.argv[1]]()
