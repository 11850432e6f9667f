#!/usr/bin/env bash
# Everything that must hold, from a fresh clone: installs the servers that the tests run against,
# then checks form, lints, dependencies, and runs all tests.
#
#   tests/run.sh            from nothing about an hour on two cores, from the caches about 15 minutes
#   tests/run.sh --soak     the long tests too: hours
#
# Needs Rust with rustfmt and clippy, a C compiler (for the TLS library), Go, and Python 3
# with pip. Nothing is written into the clone:
#
# MEGAMON_TEST_SERVERS   where the servers are installed (see tests/servers/install.sh)
# CARGO_TARGET_DIR       where Rust builds (default: megamon-target below the user's cache folder,
#                        a folder for each version of the compiler, shared by all clones)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tests=(cargo test --release --locked)
case ${1:-} in
  "") ;;
  --soak) tests+=(-- --include-ignored) ;;
  *) printf 'run.sh: unknown argument %s: it takes --soak or nothing\n' "$1" >&2; exit 64 ;;
esac

step() {
  local began=$SECONDS
  printf '\n=== %s\n' "$*" >&2
  "$@" </dev/null || { printf '=== FAILED after %s s: %s\n' $((SECONDS - began)) "$*" >&2; exit 1; }
  printf '=== %s s: %s\n' $((SECONDS - began)) "$*" >&2
}

for tool in cargo rustc cc go python3; do
  command -v "$tool" >/dev/null || { printf 'run.sh: %s is not on the PATH\n' "$tool" >&2; exit 69; }
done
caches=${XDG_CACHE_HOME:-$HOME/.cache}
if [ -z "${CARGO_TARGET_DIR:-}" ]; then
  compiler=$(rustc -vV | sed -n 's/^release: //p;s/^commit-hash: \(.\{8\}\).*/\1/p' | paste -sd-)
  export CARGO_TARGET_DIR=$caches/megamon-target/$compiler
fi
printf 'Rust builds in %s\n' "$CARGO_TARGET_DIR" >&2

step cargo fmt --check
MEGAMON_TEST_SERVERS=$(tests/servers/install.sh </dev/null)
export MEGAMON_TEST_SERVERS
PATH=$MEGAMON_TEST_SERVERS/cargo-deny-$(sed -n 's/^cargo-deny //p' tests/servers/versions)/bin:$PATH

step cargo clippy --release --locked --all-targets -- -D warnings
step cargo deny --locked check licenses bans sources
if timeout 120 cargo deny --locked fetch db </dev/null >/dev/null 2>&1; then
  step cargo deny --locked check --disable-fetch advisories
else
  printf '\n=== advisories NOT checked: their database (a git repository) cannot be reached from here\n' >&2
fi
step "${tests[@]}"
printf '\n=== all passed in %s s\n' "$SECONDS" >&2
