#!/usr/bin/env bash
# Installs the Debian packages named, as root on a Debian; elsewhere, and when that fails, it says so and goes on:
# tests that need what is missing are skipped by name, and where they must run (CI) they fail by themselves.
set -uo pipefail

missing=()
for package in "$@"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
  echo "test: not installed, and only root on Debian could install it: ${missing[*]}" >&2
  exit 0
fi

echo "test: installing ${missing[*]}" >&2
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
# Nothing of it shall run as a service: the tests start what they need themselves.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
if ! { apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"; } </dev/null >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "test: apt could not install ${missing[*]}; tests that need them are skipped" >&2
fi
rm -f "$log"
exit 0
