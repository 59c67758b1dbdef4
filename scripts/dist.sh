#!/usr/bin/env bash
# Packs every program with manual pages, completions, sample configuration, units and licence into
# target/dist/delayq-VERSION-HOST.tar.gz, with a bill of materials (CycloneDX) of each program's crate and SHA256SUMS.
# Takes the arguments of scripts/package-files.sh. The same programs make the same bytes: names are sorted, owners are
# root, and every time is the last commit's, or SOURCE_DATE_EPOCH.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

scripts/deploy-tools.sh sbom
folder=$(scripts/package-files.sh "$@")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=delayq-$version-$(rustc --version --verbose | sed -n 's/^host: //p')
dist=target/dist programs=(delayq delayq-timer delayq-forwarder delayq-compensator delayq-gateway)
rm -rf "$dist"
mkdir -p "$dist/$name"/{bin,man,completions,config,systemd}

for program in "${programs[@]}"; do install -m 755 "$folder/$program" "$dist/$name/bin"; done
install -m 644 target/packed/man/*.1 "$dist/$name/man"
install -m 644 target/packed/completions/* "$dist/$name/completions"
install -m 644 config/delayq.toml "$dist/$name/config"
cp -r deploy/systemd/. "$dist/$name/systemd"
install -m 644 LICENSE README.md CHANGELOG.md SECURITY.md "$dist/$name"

# A bill for each program: the crate with its dependencies, licences included. The command's bill contains the others'.
# cargo-cyclonedx writes beside each manifest.
for crate in cli timer forwarder compensator gateway; do
    target/deploy-tools/bin/cargo-cyclonedx cyclonedx --manifest-path "crates/delayq-$crate/Cargo.toml" --format json \
        --spec-version 1.5 --all-features --target "${name#delayq-"$version"-}" --override-filename delayq-bill --quiet
    mv "crates/delayq-$crate/delayq-bill.json" "$dist/$name/delayq-$crate.cdx.json"
done
find crates bench tests -name 'delayq-bill.json' -delete

chmod -R u=rwX,go=rX "$dist/$name"
tar --directory "$dist" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=posix \
    --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime --create "$name" | gzip -9n > "$dist/$name.tar.gz"
cp "$dist/$name"/*.cdx.json "$dist"
rm -r "${dist:?}/$name"
(cd "$dist" && sha256sum -- * > SHA256SUMS)
echo "$dist/$name.tar.gz"
