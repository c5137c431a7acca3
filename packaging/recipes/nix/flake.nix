# SPDX-License-Identifier: MIT
# For Nix: nix run github:@OWNER@/gpuleak?dir=packaging/recipes/nix -- run --gate -- ./app
# Builds the checkout that it lies in, so it needs no hash.
{
  description = "Finds leaked GPU memory of CUDA and OpenCL programs";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      root = ../../..;
    in {
      packages = each (pkgs: {
        default = pkgs.stdenv.mkDerivation {
          pname = "gpuleak";
          version = nixpkgs.lib.fileContents (root + "/python/gpuleak/VERSION");
          src = root;
          nativeBuildInputs = [ pkgs.meson pkgs.ninja pkgs.pkg-config pkgs.python3 ];
          buildInputs = [
            pkgs.elfutils pkgs.jansson pkgs.libunwind pkgs.opencl-headers pkgs.uthash pkgs.zlib
          ];
          mesonFlags = [ "-Dtests=false" "-Dpython=disabled" "--libdir=lib" ];
          postPatch = "patchShebangs .";
          meta = {
            license = nixpkgs.lib.licenses.mit;
            platforms = systems;
            mainProgram = "gpuleak";
          };
        };
      });

      checks = each (pkgs: {
        runs = pkgs.runCommand "gpuleak-runs" { } ''
          status=0
          ${self.packages.${pkgs.system}.default}/bin/gpuleak run --gate -- true || status=$?
          test $status = 24 && touch $out
        '';
      });
    };
}
