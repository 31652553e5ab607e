#!/usr/bin/env bash
# Prints the enode URL of the running node with an address that other containers reach.
set -euo pipefail
enode=$(vnode attach --datadir "${HIVE_ROOT:-}/data" --exec admin.nodeInfo | jq -r .enode)
printf '%s\n' "$enode" | sed "s/@[^:]*:/@$(hostname -i | cut -d ' ' -f 1):/"
