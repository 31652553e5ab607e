#!/usr/bin/env bash
# Starts the node as hive expects it from a client ("Hive Clients" in hive's docs): rules from the
# variables HIVE_…, block 0 from /genesis.json, blocks from /chain.rlp and /blocks, JSON-RPC on port
# 8545, peers on port 30303. For tests, HIVE_ROOT is another folder in the place of /, and HIVE_LISTEN,
# HIVE_RPC_PORT and HIVE_PEER_PORT are other addresses.
set -euo pipefail
root=${HIVE_ROOT:-}
here=$(cd "$(dirname "$0")" && pwd)
data=$root/data

if [ "${HIVE_SKIP_POW:-0}" != 0 ]; then
    echo "HIVE_SKIP_POW: got $HIVE_SKIP_POW, expected 0: vnode checks the seal of each block" >&2
    exit 1
fi

jq -f "$here/mapper.jq" "$root/genesis.json" >"$root/genesis-vnode.json"
vnode --datadir "$data" init "$root/genesis-vnode.json"

# Some blocks are meant to be invalid. The head is the last valid one.
blocks=()
[ ! -f "$root/chain.rlp" ] || blocks+=("$root/chain.rlp")
if [ -d "$root/blocks" ]; then
    while IFS= read -r file; do blocks+=("$file"); done < <(find "$root/blocks" -name '*.rlp' | sort -V)
fi
for file in "${blocks[@]}"; do
    vnode --datadir "$data" import "$file" || echo "$file: not all of its blocks are valid" >&2
done

listen=${HIVE_LISTEN:-0.0.0.0}
options=(--datadir "$data" --nat none --p2p.addr "$listen")
options+=(--rpc --rpcaddr "$listen" --rpcport "${HIVE_RPC_PORT:-8545}" --rpcvhosts '*')
options+=(--rpcapi "eth,net,web3,debug,txpool" --port "${HIVE_PEER_PORT:-30303}")
options+=(--verbosity "${HIVE_LOGLEVEL:-3}")
[ -z "${HIVE_NETWORK_ID:-}" ] || options+=(--networkid "$HIVE_NETWORK_ID")
[ -z "${HIVE_BOOTNODE:-}" ] || options+=(--bootnodes "$HIVE_BOOTNODE")
[ -z "${HIVE_MINER:-}" ] || options+=(--mine --moacbase "$HIVE_MINER")
exec vnode "${options[@]}"
