#!/usr/bin/env bash
# Tries every law of the repository on new inputs, and every fuzz target, each for a set time, and says on how many.
#
#   FUZZTIME=5s    how long each is tried; the law over policies, chain, request and object gets twelve times that, a minute
#   FUZZ=regexp    only those whose name matches
#   LAWS=only|no   only the laws that draw from seeds, or only Go's fuzz targets
#
# A law that ran on nothing proves nothing: that is a failure, and so is finding no law and no target at all. How many cases a
# machine gets through in the time is printed and not judged.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${GO:=go}" "${FUZZTIME:=5s}" "${FUZZ:=.}" "${LAWS:=yes}"
laws=0 targets=0 cases=0 execs=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

seconds() { awk -v t="$1" 'BEGIN { n = t; sub(/[a-z]+$/, "", n); if (t ~ /m$/) n *= 60; if (t ~ /h$/) n *= 3600; print n }'; }

# The tests that try a law by rounds, as "package test".
law_tests() {
	git grep -lE 'Rounds\(t, ' -- '*_test.go' | LC_ALL=C sort | while read -r file; do
		awk -v dir="./$(dirname "$file")" '/^func / { name = "" } /^func Test/ { name = $2; sub(/\(.*/, "", name) }
			/Rounds\(t, / && name != "" { print dir, name; name = "" }' "$file"
	done
}

fuzz_targets() {
	git grep -lE '^func Fuzz[A-Z]' -- '*_test.go' | LC_ALL=C sort | while read -r file; do
		awk -v dir="./$(dirname "$file")" '/^func Fuzz[A-Z]/ { sub(/\(.*/, "", $2); print dir, $2 }' "$file"
	done
}

if [ "$LAWS" != no ]; then
	while read -r pkg name; do
		[[ "$pkg $name" =~ $FUZZ ]] || continue
		for_time=$FUZZTIME
		if [ "$pkg" = ./test/law ]; then for_time="$(($(seconds "$FUZZTIME") * 12))s"; fi
		echo "== law $pkg $name for $for_time"
		PROVISO_LAW_TIME=$for_time "$GO" test -count=1 -timeout 60m -run "^$name\$" -v "$pkg" >"$log" 2>&1 || { cat "$log"; exit 1; }
		grep '^law ' "$log"
		tried=$(awk '/^law / { for (i = 1; i < NF; i++) if ($(i + 1) ~ /^cases/) n += $i } END { printf "%d", n }' "$log")
		if [ "$tried" -eq 0 ]; then echo "fuzz: $name tried no case"; exit 1; fi
		laws=$((laws + 1)) cases=$((cases + tried))
	done < <(law_tests)
fi

if [ "$LAWS" != only ]; then
	while read -r pkg name; do
		[[ "$pkg $name" =~ $FUZZ ]] || continue
		echo "== target $pkg $name for $FUZZTIME"
		# Code that is instrumented is slow to start with: a target that has tried nothing in its time gets more of it. Its own seeds,
		# on which it gathers the baseline, count.
		tried=0
		for factor in 1 4 16; do
			"$GO" test -run '^$' -fuzz "^$name\$" -fuzztime "$(($(seconds "$FUZZTIME") * factor))s" "$pkg" >"$log" 2>&1 || { cat "$log"; exit 1; }
			tried=$(sed -n -e 's/^fuzz: elapsed.*execs: \([0-9]*\).*/\1/p' -e 's/^fuzz: elapsed.*baseline coverage: \([0-9]*\).*/\1/p' "$log" | sort -n | tail -n 1)
			if [ "${tried:-0}" -gt 0 ]; then break; fi
		done
		grep '^fuzz: elapsed' "$log" | tail -n 1
		if [ "${tried:-0}" -eq 0 ]; then echo "fuzz: $name tried nothing"; cat "$log"; exit 1; fi
		targets=$((targets + 1)) execs=$((execs + tried))
	done < <(fuzz_targets)
fi

if [ $((laws + targets)) -eq 0 ]; then echo "fuzz: nothing matches FUZZ=$FUZZ"; exit 1; fi
echo "fuzz: $laws laws on $cases cases, $targets fuzz targets on $execs inputs"
