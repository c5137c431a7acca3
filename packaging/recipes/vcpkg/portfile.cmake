# SPDX-License-Identifier: MIT
# For vcpkg: the header gpuleak.h, whose functions are weak. The library and the command come from
# the wheel or the package. packaging/recipes/fill.sh writes the version and the hash.
vcpkg_download_distfile(ARCHIVE
    URLS "https://github.com/@OWNER@/gpuleak/releases/download/v${VERSION}/gpuleak-${VERSION}.tar.gz"
    FILENAME "gpuleak-${VERSION}.tar.gz"
    SHA512 @SHA512@
)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${ARCHIVE}")

file(INSTALL "${SOURCE_PATH}/include/gpuleak.h" DESTINATION "${CURRENT_PACKAGES_DIR}/include")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
