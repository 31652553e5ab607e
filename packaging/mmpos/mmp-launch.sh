#!/usr/bin/env bash
# Runs the miner with the arguments of mmpOS:
#   mmp-launch.sh --coin COIN --pool HOST:PORT --user USER --password TEXT --api-port PORT [OPTION...]
# Further options go to the miner as they are.
cd "$(dirname "$0")" || exit 1
. ./mmp-external.conf

scheme=stratum+tcp://
pool= user= password= options=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --coin)
            # Coins whose epochs are longer. All others have those of Ethash.
            [[ ${2,,} == etc ]] && options+=(--algo=etchash)
            shift
            ;;
        --pool) pool=$2 && shift ;;
        --user) user=$2 && shift ;;
        --password) password=$2 && shift ;;
        --api-port)
            [[ $2 -gt 0 ]] && STATUS_PORT=$2
            shift
            ;;
        --ssl) scheme=stratum+ssl:// ;;
        *) options+=("$1") ;;
    esac
    shift
done
if [[ -z $pool ]]; then
    echo "--pool: got nothing, expected HOST:PORT" >&2
    exit 1
fi
[[ $pool == *://* ]] || pool=$scheme$pool
# mmp-stats.sh reads the port here.
echo "$STATUS_PORT" >status-port
arguments=(--plain --device=all "--status=127.0.0.1:$STATUS_PORT")
if [[ $pool == http* ]]; then
    exec ./miner getwork "$pool" "${arguments[@]}" "${options[@]}"
fi
[[ -n $user ]] && arguments+=("--user=$user")
[[ -n $password ]] && arguments+=("--password=$password")
exec ./miner stratum "$pool" "${arguments[@]}" "${options[@]}"
