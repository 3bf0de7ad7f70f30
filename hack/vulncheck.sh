#!/usr/bin/env bash
# Looks up known vulnerabilities of every module that is linked and, where there are any, whether our code reaches them. The database is
# fetched from vuln.go.dev, or from GOVULNDB (a mirror, or file:///path/to/database where there is no network). Where it
# cannot be fetched, it says that nothing was checked and why; with VULNCHECK=required that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

tool="${GO:-go} run golang.org/x/vuln/cmd/govulncheck@${GOVULNCHECK_VERSION:?}"
flags=()
if [ -n "${GOVULNDB:-}" ]; then flags+=(-db "$GOVULNDB"); fi
out=$(mktemp)
trap 'rm -f "$out"' EXIT

skipped() {
	printf 'vulncheck: SKIPPED, nothing was checked: %s\n' "$1"
	printf 'vulncheck: run it where %s can be reached, or set GOVULNDB to a copy of the database (file:///…).\n' "$2"
	if [ "${VULNCHECK:-}" = required ]; then exit 1; fi
	exit 0
}

if ! (cd internal && $tool "${flags[@]}" -version) >"$out" 2>&1; then
	cat "$out"
	skipped "govulncheck $GOVULNCHECK_VERSION could not be fetched or built" 'the Go module proxy'
fi
# One directory of each module that links what the product links.
for dir in cmd/proviso bench; do
	code=0
	(cd "$dir" && $tool "${flags[@]}" -scan module) >"$out" 2>&1 || code=$?
	if grep -q '^govulncheck: fetching vulnerabilities' "$out"; then
		skipped "$(grep -m1 '^govulncheck: fetching vulnerabilities' "$out")" 'https://vuln.go.dev'
	elif [ $code -eq 0 ]; then
		echo "vulncheck: $dir: no module with a known vulnerability"
	elif grep -q '^Vulnerability #' "$out"; then
		echo "vulncheck: $dir: some modules have known vulnerabilities; does our code reach them?"
		(cd "$dir" && $tool "${flags[@]}" ./...)
	else
		cat "$out"
		exit "$code"
	fi
done
