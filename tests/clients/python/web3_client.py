"""web3.py with the eth_ aliases: reads, legacy transactions signed by the script, a contract and its logs.

Everything is done over HTTP; reads are also done over the local socket. Usage: web3_client.py '{"url": ...,
"socket": ..., "key": ..., "to": ..., "value": ..., "counter": {...}}'. It prints what it does; its last line
is the result as JSON.
"""

import json
import sys

from web3 import Web3
from web3.exceptions import ContractLogicError, TransactionNotFound

PATIENCE_S = 60
POLL_S = 0.1


def say(line):
    print(line, flush=True)


class Client:
    """An account whose key the node does not have. It signs and sends transactions."""

    def __init__(self, url, key):
        self.web3 = Web3(Web3.HTTPProvider(url))
        self.account = self.web3.eth.account.from_key(key)

    def fields(self, **more):
        """The fields of every legacy transaction; the gas price makes the library choose that form."""
        eth = self.web3.eth
        nonce = eth.get_transaction_count(self.account.address, "pending")
        known = {"chainId": eth.chain_id, "nonce": nonce, "gasPrice": eth.gas_price, "from": self.account.address}
        return known | more

    def send(self, transaction):
        """Signs and sends a transaction, and waits for its receipt."""
        signed = self.account.sign_transaction(transaction)
        assert signed.raw_transaction[0] >= 0xC0, "a list, not a typed envelope"
        sent = self.web3.eth.send_raw_transaction(signed.raw_transaction)
        assert sent == signed.hash, f"got {sent.hex()}, expected the hash that the library computed"
        receipt = self.web3.eth.wait_for_transaction_receipt(sent, timeout=PATIENCE_S, poll_latency=POLL_S)
        assert receipt.status == 1, receipt
        return receipt


def main(argument):
    client = Client(argument["url"], argument["key"])
    web3, address = client.web3, client.account.address
    eth = web3.eth
    to, value, counter = Web3.to_checksum_address(argument["to"]), int(argument["value"], 16), argument["counter"]

    assert web3.is_connected() and eth.chain_id == 100 and web3.net.version == "100"
    block = eth.get_block("latest", full_transactions=True)
    assert eth.get_block(block.hash).number == block.number
    assert len(block.transactions) == eth.get_block_transaction_count(block.number)
    local = Web3(Web3.IPCProvider(argument["socket"]))
    assert local.eth.get_block(block.number).hash == block.hash, "the same block over the local socket"
    say(f"{web3.client_version}: block {block.number}, {address} has {eth.get_balance(address)}")

    receipt = client.send(client.fields(to=to, value=value, gas=21000))
    transaction = eth.get_transaction(receipt.transactionHash)
    assert (transaction["from"], transaction["to"], transaction.value) == (address, to, value)
    try:
        eth.get_transaction(b"\1" * 32)
        raise SystemExit("a transaction that nobody sent")
    except TransactionNotFound:
        pass
    say(f"sent {value} to {to}: {receipt.transactionHash.to_0x_hex()} in block {receipt.blockNumber}")

    factory = eth.contract(abi=counter["abi"], bytecode=counter["bytecode"])
    created = client.send(factory.constructor().build_transaction(client.fields()))
    contract = eth.contract(address=created.contractAddress, abi=counter["abi"])
    first = contract.functions.get().call()
    watch = contract.events.Changed.create_filter(from_block=created.blockNumber)
    changed = client.send(contract.functions.set(7).build_transaction(client.fields()))
    second = contract.functions.get().call()
    assert contract.functions.get().call(block_identifier=changed.blockNumber - 1) == first
    try:
        contract.functions.set(0).call({"from": address})
        raise SystemExit("zero is refused")
    except ContractLogicError:
        pass
    say(f"created {contract.address}: get() was {first}, set 7, now is {second}")

    [event] = contract.events.Changed.get_logs(from_block=0, argument_filters={"by": address})
    assert not contract.events.Changed.get_logs(from_block=0, argument_filters={"by": to})
    [told] = watch.get_new_entries()
    assert told.transactionHash == event.transactionHash == changed.transactionHash
    assert watch.get_all_entries()[-1] == told
    assert eth.uninstall_filter(watch.filter_id)
    say(f"found and was told of {event.event}({event.args.by}, {event.args.value})")
    return {
        "hash": receipt.transactionHash.to_0x_hex(),
        "contract": contract.address,
        "first": hex(first),
        "second": hex(second),
        "event": {"by": event.args.by, "value": hex(event.args.value)},
        "balance": hex(eth.get_balance(to)),
    }


if __name__ == "__main__":
    result = main(json.loads(sys.argv[1]))
    print(json.dumps(result))
