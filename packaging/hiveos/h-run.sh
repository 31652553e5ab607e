#!/usr/bin/env bash
# Runs the miner with the options that h-config.sh has written. HiveOS starts it again when it ends.
cd "$(dirname "$0")" || exit 1
. ./h-manifest.conf
mapfile -t options <"$CUSTOM_CONFIG_FILENAME" || exit 1
if [[ ${#options[@]} -eq 0 ]]; then
    echo "$CUSTOM_CONFIG_FILENAME: got no options; set the address of a pool in the flight sheet" >&2
    exit 1
fi
mkdir -p "$(dirname "$CUSTOM_LOG_BASENAME")"
# The log is on the screen that HiveOS shows, and in the file that it cuts off. Signals reach the miner.
exec ./miner "${options[@]}" > >(tee --append "$CUSTOM_LOG_BASENAME.log") 2>&1
