#!/usr/bin/env bash
# Starts the node as hive expects it from a client ("Hive Clients" in hive's docs): rules from the
# variables HIVE_…, block 0 from /genesis.json, blocks from /chain.rlp and /blocks, JSON-RPC on port
# 8545, peers on port 30303. For tests, HIVE_ROOT is another folder in the place of /, and HIVE_LISTEN,
# HIVE_RPC_PORT and HIVE_PEER_PORT are other addresses.
set -euo pipefail
root=${HIVE_ROOT:-}
here=$(cd "$(dirname "$0")" && pwd)
data=$root/data

# Rules and protocols that the node does not have. A test that has London never says block 2000.
for variable in "${!HIVE_@}"; do
    got=${!variable}
    case $variable in
        HIVE_FORK_LONDON) [ "${got:-2000}" -lt 2000 ] || continue ;;
        HIVE_FORK_ARROW_GLACIER | HIVE_FORK_GRAY_GLACIER | HIVE_MERGE_BLOCK_ID) ;;
        HIVE_TERMINAL_TOTAL_DIFFICULTY | HIVE_*_TIMESTAMP) ;;
        HIVE_CLIQUE_PERIOD | HIVE_GRAPHQL_ENABLED | HIVE_LES_SERVER) ;;
        *) continue ;;
    esac
    if [ -n "$got" ]; then
        echo "$variable: got $got, expected none: vnode has proof of work and the rules up to Berlin" >&2
        exit 1
    fi
done
seals=()
[ "${HIVE_SKIP_POW:-0}" = 0 ] || seals=(--fakepow)
case ${HIVE_NODETYPE:-full} in
    full | archive) mode=full ;;
    snap) mode=snap ;;
    *)
        echo "HIVE_NODETYPE: got $HIVE_NODETYPE, expected archive, full or snap" >&2
        exit 1
        ;;
esac

jq -f "$here/mapper.jq" "$root/genesis.json" >"$root/genesis-vnode.json"
vnode --datadir "$data" init "$root/genesis-vnode.json"

# Some blocks are meant to be invalid. The head is the last valid one. A command ends at the first
# block that is invalid, so then each file has a command of its own.
files=()
[ ! -f "$root/chain.rlp" ] || files+=("$root/chain.rlp")
if [ -d "$root/blocks" ]; then
    while IFS= read -r file; do files+=("$file"); done < <(find "$root/blocks" -name '*.rlp' | sort -V)
fi
import() { vnode --datadir "$data" "${seals[@]}" import "$@"; }
if [ ${#files[@]} -gt 0 ] && ! import "${files[@]}"; then
    for file in "${files[@]}"; do
        import "$file" || echo "$file: not all of its blocks are valid" >&2
    done
fi

# Peers are those of the test only, so nothing is asked of the nodes of public networks.
listen=${HIVE_LISTEN:-0.0.0.0}
options=(--datadir "$data" "${seals[@]}" --syncmode "$mode" --nat none --p2p.addr "$listen")
options+=(--bootnodes "${HIVE_BOOTNODE:-}" --discovery.dns "")
options+=(--rpc --rpcaddr "$listen" --rpcport "${HIVE_RPC_PORT:-8545}" --rpcvhosts '*')
options+=(--rpcapi "eth,net,web3,debug,txpool" --port "${HIVE_PEER_PORT:-30303}")
# Tests send transactions that pay 1 for each gas.
options+=(--txpool.pricelimit 1 --verbosity "${HIVE_LOGLEVEL:-3}")
[ -z "${HIVE_NETWORK_ID:-}" ] || options+=(--networkid "$HIVE_NETWORK_ID")
[ -z "${HIVE_MINER:-}" ] || options+=(--mine --moacbase "$HIVE_MINER")
[ -z "${HIVE_MINER_EXTRA:-}" ] || options+=(--extradata "$HIVE_MINER_EXTRA")
[ -z "${HIVE_TARGET_GAS_LIMIT:-}" ] || options+=(--targetgaslimit "$HIVE_TARGET_GAS_LIMIT")
exec vnode "${options[@]}"
