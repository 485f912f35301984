#!/usr/bin/env bash
# What `npm test` runs, on a fresh machine too: installs what the tests need, builds what they start, runs them.
# Arguments go to vitest: npm test -- test/db
set -euo pipefail
cd "$(dirname "$0")/.."

bash test/install.sh radosgw ceph-mon ceph-osd pgbouncer chromium
npm run -s build
exec npx vitest run "$@"
