#!/usr/bin/env bash
# Generates what is derived from the types in api/: deep copies, OpenAPI model names and OpenAPI definitions.
#
#   hack/generate.sh           write the files
#   hack/generate.sh --check   write nothing; fail if a file is stale
#
# Run it from anywhere. The generators come through the Go module proxy, pinned to the versions that go.mod builds with.
set -o errexit -o nounset -o pipefail

CODE_GENERATOR="k8s.io/code-generator/cmd/deepcopy-gen@v0.37.1"
OPENAPI_GENERATOR="k8s.io/kube-openapi/cmd/openapi-gen@v0.0.0-20260721132016-d427ff9ee9ad"
GROUPS_OF_API=(./api/policy/v1alpha1 ./api/authorization/v1alpha1 ./api/auditregistration/v1alpha1)
# Types that take the place of Kubernetes' own. Their definitions are apart, since a server serves one or the other.
REPLACED_API=(./api/authorizationreview/v1 ./api/authorizationreview/v1alpha1)

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
touch "${work}/header.txt"

# definitions DIR PACKAGES... writes the OpenAPI definitions of the packages to DIR/openapi and prints the rules they break.
definitions() {
  local dir="$1"
  shift
  go run "${OPENAPI_GENERATOR}" \
    --go-header-file "${work}/header.txt" \
    --output-dir "./${dir}/openapi" \
    --output-pkg "proviso.dev/proviso/${dir}/openapi" \
    --output-file zz_generated.openapi.go \
    --output-model-name-file zz_generated.model_name.go \
    --report-filename "${work}/report.txt" \
    "$@" >&2
  cat "${work}/report.txt"
}

# generate DIR writes all generated files of the module in DIR.
generate() {
  cd "$1"
  go run "${CODE_GENERATOR}" \
    --go-header-file "${work}/header.txt" \
    --output-file zz_generated.deepcopy.go \
    "${GROUPS_OF_API[@]}" "${REPLACED_API[@]}"
  definitions api "${GROUPS_OF_API[@]}" >"${work}/violations.txt"
  definitions api/authorizationreview "${REPLACED_API[@]}" >>"${work}/violations.txt"
  # Exceptions are names that the outside world has fixed, such as "urls" of the original design.
  if ! diff "${root}/hack/api-rule-exceptions.txt" "${work}/violations.txt" >&2; then
    echo "hack/generate.sh: the types break rules for APIs that hack/api-rule-exceptions.txt does not list" >&2
    exit 1
  fi
}

case "${1:-}" in
"")
  generate "${root}"
  ;;
--check)
  mkdir "${work}/copy"
  cp -r "${root}/go.mod" "${root}/go.sum" "${root}/api" "${work}/copy/"
  generate "${work}/copy"
  if ! diff -r "${root}/api" "${work}/copy/api" >"${work}/diff.txt"; then
    echo "hack/generate.sh: generated files are stale; run hack/generate.sh and commit the result" >&2
    head -40 "${work}/diff.txt" >&2
    exit 1
  fi
  ;;
*)
  echo "usage: hack/generate.sh [--check]" >&2
  exit 2
  ;;
esac
