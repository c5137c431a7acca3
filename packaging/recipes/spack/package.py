# SPDX-License-Identifier: MIT
# For Spack: packages/gpuleak/package.py of spack-packages. packaging/recipes/fill.sh writes the
# version and the SHA-256 of the release's source archive.

from spack_repo.builtin.build_systems.meson import MesonPackage

from spack.package import *


class Gpuleak(MesonPackage):
    """Finds leaked GPU memory of CUDA and OpenCL programs, without a rebuild."""

    homepage = "https://github.com/@OWNER@/gpuleak"
    url = "https://github.com/@OWNER@/gpuleak/releases/download/v1.0.0/gpuleak-1.0.0.tar.gz"

    license("MIT")

    version("@VERSION@", sha256="@SHA256@")

    depends_on("c", type="build")
    depends_on("meson@1.0:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.8:", type=("build", "run"))
    depends_on("elfutils@0.186:")
    depends_on("jansson@2.8:")
    depends_on("libunwind")
    depends_on("opencl-c-headers", type="build")
    depends_on("uthash", type="build")
    depends_on("zlib-api")

    requires("platform=linux")

    def meson_args(self):
        return ["-Dtests=false", "--libdir=lib"]
