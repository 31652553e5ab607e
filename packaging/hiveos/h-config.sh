#!/usr/bin/env bash
# Writes the options of the miner from the flight sheet, one per line. HiveOS includes this script:
# CUSTOM_URL has the pools, CUSTOM_TEMPLATE the account, CUSTOM_PASS the password, CUSTOM_ALGO the
# algorithm, CUSTOM_USER_CONFIG further options of the miner.

vnode_miner_options() {
    local urls=(${CUSTOM_URL//[,;]/ })
    if [[ ${#urls[@]} -eq 0 ]]; then
        echo "CUSTOM_URL: got nothing, expected the address of a pool or a node" >&2
        return 1
    fi
    # An http address is a node, everything else a pool.
    if [[ ${urls[0]} == http* ]]; then
        printf '%s\n' getwork "${urls[@]}"
    else
        printf '%s\n' stratum "${urls[@]}"
        [[ -n $CUSTOM_TEMPLATE ]] && printf '%s\n' "--user=$CUSTOM_TEMPLATE"
        [[ -n $CUSTOM_PASS ]] && printf '%s\n' "--password=$CUSTOM_PASS"
    fi
    [[ $CUSTOM_ALGO == etchash ]] && printf '%s\n' --algo=etchash
    printf '%s\n' --device=all --plain "--status=127.0.0.1:$CUSTOM_STATUS_PORT"
    # The words of the user's own options. They come last, and quotes have no meaning.
    local words
    read -r -d '' -a words <<<"$CUSTOM_USER_CONFIG"
    [[ ${#words[@]} -gt 0 ]] && printf '%s\n' "${words[@]}"
    return 0
}

[[ -n $CUSTOM_CONFIG_FILENAME ]] || . /hive/miners/custom/vnode_miner/h-manifest.conf
(umask 077 && vnode_miner_options >"$CUSTOM_CONFIG_FILENAME")
