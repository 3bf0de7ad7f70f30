#!/usr/bin/env bash
# Proves that a release is reproducible and can be installed: clones HEAD to two directories of different length, makes a
# signed release for this machine in each, compares the checksums, starts the image in a user namespace without root, and
# pastes the page on installing.
#
# The second build finds the compiled packages of the first in Go's cache, but only those whose inputs are the same: with
# -trimpath no directory is among them, and a package that had one in it would be compiled anew and differ. Linking,
# packing and the image are done twice in any case. COLD=yes gives the second build an empty cache instead.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
platform="linux/$(${GO:-go} env GOARCH)"
one="$work/a" two="$work/b/much/longer/path/to/the/same/commit"
openssl genpkey -algorithm ed25519 -out "$work/release.key" # for both: the signatures are the same bytes, too
git clone -q . "$one"
git clone -q . "$two"
for dir in "$one" "$two"; do
	if [ "$dir" = "$two" ] && [ "${COLD:-}" = yes ]; then export GOCACHE="$work/cache"; fi
	echo "== $platform in ${dir#"$work"/}"
	make -C "$dir" release RELEASE_PLATFORMS="$platform" RELEASE_KEY_FILE="$work/release.key" VERSION="${VERSION:-$(git describe --tags --match 'v*' 2>/dev/null || echo v0.1.0-dev)}"
done
if ! diff "$one/dist/release/SHA256SUMS" "$two/dist/release/SHA256SUMS" || ! cmp "$one/dist/release/SHA256SUMS.sig" "$two/dist/release/SHA256SUMS.sig"; then
	echo 'prove-release: the two builds differ' >&2
	exit 1
fi
(cd "$one/dist/release" && sha256sum --quiet -c SHA256SUMS)
echo "prove-release: two builds, the same bytes"
PROVISO_DIST="$one/dist/release" PROVISO_IMAGE=$(ls "$one"/dist/release/*_image.tar) \
	${GO:-go} -C hack/release test -count=1 -v -run 'TestImageRunsWithoutRoot|TestInstallPage' ./...
