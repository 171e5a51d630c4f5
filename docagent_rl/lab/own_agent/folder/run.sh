#!/usr/bin/env bash
# From the documents to a trained agent. The same command resumes after an interruption; --dry-run prints all commands.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec docagent-rl run . "$@"
