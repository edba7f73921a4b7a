#!/usr/bin/env bash
# Runs a test of the dashboard in a browser, or says why it cannot (77: skipped).
#   run.sh TEST    with RUBATO, RUBATOD, RUBATO_TOY (programs), RUBATO_WEB (folder of the built dashboard)
set -euo pipefail
skip() { echo "skipped: $*"; exit 77; }
command -v node >/dev/null || skip "node is not installed (scripts/setup web)"
command -v chromium >/dev/null || skip "chromium is not installed (scripts/setup web)"
[[ -d $RUBATO_WEB/node_modules/playwright-core ]] || skip "npm could not fetch the packages of web/"
exec node --test --test-reporter=spec "$1"
