#!/usr/bin/env bash
# Generates what is derived from the types in api/: deep copies, OpenAPI model names and OpenAPI definitions, and in
# client/ the clientset, listers, informers and apply configurations.
#
#   hack/generate.sh           write the files
#   hack/generate.sh --check   write nothing; fail if a file is stale
#
# Run it from anywhere. The generators come through the Go module proxy, pinned to the versions that go.mod builds with.
set -o errexit -o nounset -o pipefail

CODE_GENERATOR="v0.37.1" # of k8s.io/code-generator
OPENAPI_GENERATOR="k8s.io/kube-openapi/cmd/openapi-gen@v0.0.0-20260721132016-d427ff9ee9ad"
MODULE="proviso.dev/proviso"
GROUPS_OF_API=(policy/v1alpha1 authorization/v1alpha1 auditregistration/v1alpha1 access/v1alpha1)
# Types that take the place of Kubernetes' own. Their definitions are apart, since a server serves one or the other.
REPLACED_API=(authorizationreview/v1 authorizationreview/v1alpha1)

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
touch "${work}/header.txt"

# generator NAME FLAGS... runs one of Kubernetes' code generators.
generator() {
  local name="$1"
  shift
  go run "k8s.io/code-generator/cmd/${name}@${CODE_GENERATOR}" --go-header-file "${work}/header.txt" "$@"
}

# definitions DIR PACKAGES... writes the OpenAPI definitions of the packages to DIR and prints the rules they break.
definitions() {
  local dir="$1"
  shift
  go run "${OPENAPI_GENERATOR}" \
    --go-header-file "${work}/header.txt" \
    --output-dir "./${dir}" \
    --output-pkg "${MODULE}/api/${dir}" \
    --output-file zz_generated.openapi.go \
    --output-model-name-file zz_generated.model_name.go \
    --report-filename "${work}/report.txt" \
    "$@" >&2
  cat "${work}/report.txt"
}

# types DIR writes the generated files of the types, a module in DIR/api.
types() {
  cd "$1/api"
  generator deepcopy-gen --output-file zz_generated.deepcopy.go "${GROUPS_OF_API[@]/#/./}" "${REPLACED_API[@]/#/./}"
  definitions openapi "${GROUPS_OF_API[@]/#/./}" >"${work}/violations.txt"
  definitions authorizationreview/openapi "${REPLACED_API[@]/#/./}" >>"${work}/violations.txt"
  # Exceptions are names that the outside world has fixed, such as "urls" of the original design.
  if ! diff "${root}/hack/api-rule-exceptions.txt" "${work}/violations.txt" >&2; then
    echo "hack/generate.sh: the types break rules for APIs that hack/api-rule-exceptions.txt does not list" >&2
    exit 1
  fi
}

# client DIR writes the typed client, a module in DIR/client, without what an earlier run wrote.
client() {
  cd "$1/client"
  rm -rf applyconfiguration clientset listers informers
  local inputs=("${GROUPS_OF_API[@]/#/${MODULE}/api/}")
  generator applyconfiguration-gen --output-dir applyconfiguration --output-pkg "${MODULE}/client/applyconfiguration" "${inputs[@]}"
  generator client-gen --output-dir clientset --output-pkg "${MODULE}/client/clientset" --clientset-name versioned \
    --apply-configuration-package "${MODULE}/client/applyconfiguration" \
    --input-base "${MODULE}/api" "${GROUPS_OF_API[@]/#/--input=}"
  generator lister-gen --output-dir listers --output-pkg "${MODULE}/client/listers" "${inputs[@]}"
  generator informer-gen --output-dir informers --output-pkg "${MODULE}/client/informers" \
    --versioned-clientset-package "${MODULE}/client/clientset/versioned" --listers-package "${MODULE}/client/listers" "${inputs[@]}"
}

# generate DIR writes all generated files of the repository in DIR.
generate() {
  types "$1"
  client "$1"
}

case "${1:-}" in
"")
  generate "${root}"
  ;;
--check)
  mkdir "${work}/copy"
  cp -r "${root}/api" "${root}/client" "${work}/copy/"
  generate "${work}/copy"
  if ! { diff -r "${root}/api" "${work}/copy/api" && diff -r "${root}/client" "${work}/copy/client"; } >"${work}/diff.txt"; then
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
