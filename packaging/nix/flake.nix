# SPDX-License-Identifier: MIT OR Apache-2.0
# From a clone:  nix run '.?dir=packaging/nix' -- doctor
{
  description = "Takes a Linux machine from stock to a proven deadline";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      root = ../..;
      workspace = builtins.fromTOML (builtins.readFile (root + "/Cargo.toml"));
      package = pkgs: pkgs.rustPlatform.buildRustPackage {
        pname = "isolator";
        version = workspace.workspace.package.version;
        src = root;
        cargoLock.lockFile = root + "/Cargo.lock";
        cargoBuildFlags = [ "--package" "isolator" ];
        buildType = "dist";
        # The wrapped clang adds options that its BPF target does not know.
        env.CLANG = "${pkgs.llvmPackages.clang-unwrapped}/bin/clang";
        env.ISOLATOR_COMMIT = self.shortRev or self.dirtyShortRev or "unknown";
        # They load machines, boot guests and need root.
        doCheck = false;
        nativeBuildInputs = [ pkgs.installShellFiles ];
        postInstall = ''
          $out/bin/isolator generate pages
          installManPage pages/man/*.1
          install -D -m 644 -t $out/share/isolator/schema pages/schema/*.json
          installShellCompletion --bash pages/completions/isolator.bash --fish pages/completions/isolator.fish --zsh pages/completions/_isolator
        '';
        meta = {
          description = "Takes a Linux machine from stock to a proven deadline";
          license = with nixpkgs.lib.licenses; [ mit asl20 gpl2Only ];
          platforms = systems;
          mainProgram = "isolator";
        };
      };
    in
    {
      packages = nixpkgs.lib.genAttrs systems (system: {
        default = package nixpkgs.legacyPackages.${system};
      });
      overlays.default = final: _: { isolator = package final; };
    };
}
