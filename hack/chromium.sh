#!/usr/bin/env bash
# Sees to it that there is a Chromium for the tests in a browser. It installs the distribution's package where it may,
# as root with apt-get, and says what is missing where it may not: the tests then skip, and say so too.
set -euo pipefail
for name in chromium chromium-browser google-chrome google-chrome-stable; do
	if command -v "$name" >/dev/null 2>&1; then
		echo "browser: $(command -v "$name")"
		exit 0
	fi
done
skipped() {
	printf 'browser: SKIPPED, the explorer was not tried in a browser: %s\n' "$1"
	printf 'browser: install Chromium and run go run ./hack/prove browser again.\n'
	if [ "${BROWSER_TESTS:-}" = required ]; then exit 1; fi
	exit 0
}
[ "$(id -u)" = 0 ] || skipped 'there is no Chromium, and only root may install it'
command -v apt-get >/dev/null 2>&1 || skipped 'there is no Chromium, and no apt-get to install it with'
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } >"$log" 2>&1; then
	tail -n 5 "$log"
	skipped 'apt-get could not install chromium'
fi
echo "browser: installed $(command -v chromium)"
