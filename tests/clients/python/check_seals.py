"""Checks the seals of blocks with an independent implementation of Ethash (PyPI `ethash`).

It uses only getBlockByNumber of the interface, and hashes the headers itself.
Usage: check_seals.py '{"url": ..., "first": n, "last": m}'. It prints the nonces of the blocks as JSON.
"""

import json
import sys
import urllib.request

import ethash

EPOCH_BLOCKS = 30_000
# The header fields that are hashed for the seal, in their order.
DATA = ["parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom"]
NUMBERS = ["difficulty", "number", "gasLimit", "gasUsed", "timestamp"]


def call(url, method, params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["result"]


def length(count, offset):
    if count < 56:
        return bytes([offset + count])
    size = (count.bit_length() + 7) // 8
    return bytes([offset + 55 + size]) + count.to_bytes(size, "big")


def item(data):
    if len(data) == 1 and data[0] < 0x80:
        return data
    return length(len(data), 0x80) + data


def number(text):
    value = int(text, 16)
    return item(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def data(text):
    return item(bytes.fromhex(text[2:]))


def header_hash(block):
    fields = [data(block[name]) for name in DATA] + [number(block[name]) for name in NUMBERS]
    body = b"".join(fields + [data(block["extraData"])])
    return ethash.keccak_256(length(len(body), 0xC0) + body)


def check(block):
    epoch = int(block["number"], 16) // EPOCH_BLOCKS
    final_hash, mix_hash = ethash.hash(epoch, header_hash(block), int(block["nonce"], 16))
    if mix_hash.hex() != block["mixHash"][2:]:
        raise SystemExit(f"mix of block {block['number']}: got {block['mixHash']}, expected {mix_hash.hex()}")
    if int.from_bytes(final_hash, "big") * int(block["difficulty"], 16) > 2**256:
        raise SystemExit(f"block {block['number']} misses its difficulty: {final_hash.hex()}")


def main(url, first, last):
    nonces = []
    for height in range(first, last + 1):
        block = call(url, "mc_getBlockByNumber", [hex(height), False])
        check(block)
        nonces.append(block["nonce"])
    return nonces


if __name__ == "__main__":
    argument = json.loads(sys.argv[1])
    print(json.dumps(main(argument["url"], argument["first"], argument["last"])))
