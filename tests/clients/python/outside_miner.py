"""Mines over getWork with an independent implementation of Ethash (PyPI `ethash`).

It uses only getWork, submitWork and getBlockByNumber of the interface.
Usage: outside_miner.py '{"url": ..., "blocks": n}'. It prints the sealed blocks as JSON.
"""

import json
import sys
import threading
import time
import urllib.error
import urllib.request

import ethash

# Number of search threads. The library releases the interpreter lock while it hashes.
THREADS = 2
# Number of nonces between two checks whether another thread has found a solution.
SLICE = 16
PATIENCE_S = 100


class Refused(Exception):
    """The node answered with an error."""


def call(url, method, params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        response = json.load(answer)
    if "error" in response:
        raise Refused(response["error"])
    return response["result"]


def work_after(url, old):
    """Waits for work with another header hash than `old`."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            work = call(url, "mc_getWork", [])
            if work[0] != old:
                return work
        except Refused:
            pass
        time.sleep(0.1)
    raise SystemExit("no work")


def epoch_of(seed):
    """The epoch of `seed`: how often zero is hashed with Keccak-256 to get it."""
    step = bytes(32)
    for epoch in range(2048):
        if step == seed:
            return epoch
        step = ethash.keccak_256(step)
    raise SystemExit(f"seed hash of no epoch: {seed.hex()}")


def search(epoch, header_hash, boundary, first):
    """Searches for a nonce. Returns the nonce and its mix hash."""
    found = []
    done = threading.Event()

    def look(nonce):
        while not done.is_set():
            for _ in range(SLICE):
                final_hash, mix_hash = ethash.hash(epoch, header_hash, nonce)
                if final_hash <= boundary:
                    found.append((nonce, mix_hash))
                    done.set()
                    return
                nonce += THREADS

    threads = [threading.Thread(target=look, args=(first + lane,)) for lane in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found[0]


def mine(url, count):
    sealed = []
    header_hash = None
    while len(sealed) < count:
        work = work_after(url, header_hash)
        header_hash, seed, boundary = work[:3]
        head, target, seed = (bytes.fromhex(part[2:]) for part in (header_hash, boundary, seed))
        nonce, mix_hash = search(epoch_of(seed), head, target, 1 << 40)
        solution = [f"0x{nonce:016x}", header_hash, "0x" + mix_hash.hex()]
        taken = call(url, "mc_submitWork", solution)
        if taken is not True:
            raise SystemExit(f"the node says {taken!r} to {solution}")
        block = call(url, "mc_getBlockByNumber", ["latest", False])
        sealed.append({"nonce": solution[0], "mixHash": solution[2], "block": block})
    return sealed


if __name__ == "__main__":
    argument = json.loads(sys.argv[1])
    print(json.dumps(mine(argument["url"], argument["blocks"])))
