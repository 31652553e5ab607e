#!/usr/bin/env bash
# Sets khs (thousands of hashes per second of the rig) and stats (JSON) for the agent of HiveOS,
# which includes this script.
[[ -n $CUSTOM_STATUS_PORT ]] || . /hive/miners/custom/vnode_miner/h-manifest.conf

khs=0
stats=
status_json=$(curl --silent --max-time "${API_TIMEOUT:-5}" --noproxy '*' "http://127.0.0.1:$CUSTOM_STATUS_PORT/status")
if [[ -z $status_json ]]; then
    echo "the miner does not answer at 127.0.0.1:$CUSTOM_STATUS_PORT"
else
    khs=$(jq -r '.hashrate / 1000' <<<"$status_json")
    # The bus of a card is the second part of its address, in hexadecimal digits; the processor has none.
    stats=$(jq -c --arg algo "${CUSTOM_ALGO:-ethash}" '
        def digit: if . > 96 then . - 87 elif . > 64 then . - 55 else . - 48 end;
        def bus: if . == null then null
            else split(":")[-2] | explode | reduce .[] as $d (0; . * 16 + ($d | digit)) end;
        {
            hs: [.devices[].hashrate],
            hs_units: "hs",
            temp: [.devices[].temperature_c // 0 | round],
            fan: [.devices[].fan_percent // 0 | round],
            uptime: .uptime_s,
            ver: .version,
            ar: [.accepted, .stale + .rejected, .invalid, ([.devices[].invalid | tostring] | join(";"))],
            algo: $algo,
            bus_numbers: [.devices[].pci_bus | bus]
        }' <<<"$status_json")
fi
