#!/usr/bin/env bash
# Prints the figures of the miner as JSON for the agent of mmpOS.
cd "$(dirname "$0")" || exit 1
. ./mmp-external.conf
[[ -r status-port ]] && STATUS_PORT=$(<status-port)

status_json=$(curl --silent --max-time 5 --noproxy '*' "http://127.0.0.1:$STATUS_PORT/status")
if [[ -z $status_json ]]; then
    echo "the miner does not answer at 127.0.0.1:$STATUS_PORT"
    exit 1
fi
# The bus of a card is the second part of its address, in hexadecimal digits. The processor comes
# first and has the name cpu.
jq -c --arg name "$EXTERNAL_NAME" --arg version "$EXTERNAL_VERSION" '
    def digit: if . > 96 then . - 87 elif . > 64 then . - 55 else . - 48 end;
    def bus: split(":")[-2] | explode | reduce .[] as $d (0; . * 16 + ($d | digit));
    (.devices | to_entries | sort_by(.value.device != "cpu", .key) | map(.value)) as $devices
    | {
        busid: [$devices[] | if .device == "cpu" then "cpu" elif .pci_bus then .pci_bus | bus else 0 end],
        hash: [$devices[].hashrate],
        units: "hs",
        air: [.accepted, .invalid, .stale + .rejected | tostring],
        shares: {
            accepted: [$devices[].accepted],
            invalid: [$devices[].invalid],
            rejected: [$devices[] | .stale + .rejected]
        },
        miner_name: $name,
        miner_version: $version
    }' <<<"$status_json"
