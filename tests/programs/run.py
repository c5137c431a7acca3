#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs one family of cases, or all, or the first case of each ("smoke"), and speaks TAP. What is
not installed on this machine is skipped, unless GPULEAK_MUST_RUN is set: then it fails."""

import argparse
import os
import sys

sys.dont_write_bytecode = True

import cases
import harness
import standin_only


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", nargs="?", choices=["all", "smoke"] + sorted(cases.FAMILIES),
                        default="all")
    parser.add_argument("--preload", required=True)
    parser.add_argument("--command", required=True)
    parser.add_argument("--standin", required=True, help="directory of the stand-in driver")
    parser.add_argument("--programs", required=True, help="directory of the built programs")
    parser.add_argument("--real-driver", action="store_true",
                        help="STANDIN leads to a real driver: leave out what only ours can run")
    parser.add_argument("--only", help="only cases with this in their name")
    options = parser.parse_args()
    for name in ("preload", "command", "standin", "programs"):
        setattr(options, name, os.path.realpath(getattr(options, name)))
    return options


def unable(item, options):
    """Why this user or kernel can't run ITEM, or None: nothing that could be installed."""
    probe = getattr(item, "probe", None)
    return probe(options) if probe else None


def missing(item, options):
    """What ITEM needs and is not installed, or None."""
    needs = getattr(item, "needs", None) or getattr(item, "program", None)
    if needs and not os.path.exists(os.path.join(options.programs, "p_" + needs)):
        return "p_%s was not built here" % needs
    if needs and needs.startswith("cl_"):
        with harness.a_place(options) as place:
            run = place.run([place.program("cl_leak")])
        if run.status:
            return "no OpenCL device: " + run.stdout.strip()
    return None


def run_item(tap, item, options):
    name = item.name if isinstance(item, harness.Case) else item.__doc__.split("\n")[0]
    if options.only and options.only not in name:
        return
    reason = missing(item, options)
    if reason and os.environ.get("GPULEAK_MUST_RUN"):
        tap.line(name, "must run here, but " + reason)
        return
    if not reason and options.real_driver:
        reason = standin_only.reason(item, name)
    reason = reason or unable(item, options)
    if reason:
        tap.line(name, skip=reason)
    elif isinstance(item, harness.Case):
        harness.run_case(tap, item, options)
    else:
        harness.run_function(tap, item, options)


def main():
    options = parse()
    tap = harness.Tap()
    several = options.family in ("all", "smoke")
    for family in sorted(cases.FAMILIES) if several else [options.family]:
        for item in cases.FAMILIES[family][:1 if options.family == "smoke" else None]:
            run_item(tap, item, options)
    print("1..%d" % tap.count)
    return 1 if tap.failed else 0


sys.exit(main())
