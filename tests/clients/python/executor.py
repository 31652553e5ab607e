"""An independent executor of blocks: the specification of Ethereum in Python, the package ethereum-execution.

It reads a JSON request from each line of its input and writes a JSON answer to each line of its output. It knows
nothing about the node. The requests and answers are those of `executor.mjs`, which describes them, but `hardfork` is a
package of `ethereum.forks`, and `baseFee` is the base fee of all blocks. Besides, each header and its uncles must be
valid by the specification; only seals are not checked.
"""

import json
import sys
import traceback
from importlib import import_module
from types import FunctionType

import quick  # Before any other part of the specification.
import ethereum.trace
from ethereum.crypto.hash import keccak256
from ethereum_rlp import rlp
from ethereum_types.bytes import Bytes, Bytes8, Bytes20, Bytes32
from ethereum_types.numeric import U64, U256, Uint

# The most steps of a trace.
STEPS_MAX = 200_000
BLOOM_BYTES = 256
# A block that no chain has.
NEVER = 10**18


def unhex(text):
    return bytes.fromhex(text.removeprefix("0x"))


def as_hex(data):
    return "0x" + bytes(data).hex()


def number(text):
    return int(text, 16)


def part(fork, name):
    return import_module(f"ethereum.forks.{fork}.{name}")


def with_names(function, **names):
    """The same function with other values for some of the names of its module."""
    return FunctionType(function.__code__, function.__globals__ | names)


class Rules:
    """The modules of a fork. With a reward, they are made Ethereum Classic's: without bomb and base fee."""

    def __init__(self, fork, reward):
        self.fork, self.state, self.trie, self.bloom, self.types, self.vm, self.transactions = (
            part(fork, name) for name in ["fork", "state", "trie", "bloom", "fork_types", "vm", "transactions"]
        )
        self.steps = quick.steps(fork)
        # Headers never have a base fee here, so later forks get those of Berlin, and London's rewards.
        later = fork in ["london", "shanghai"]
        self.headers = part("berlin" if later else fork, "fork")
        self.blocks = part("berlin" if later else fork, "blocks")
        # Seals are not made here.
        self.headers.validate_proof_of_work = lambda header: None
        if not hasattr(self.headers, "BOMB_DELAY_OF_FORK"):
            self.headers.BOMB_DELAY_OF_FORK = getattr(self.headers, "BOMB_DELAY_BLOCKS", None)
        self.headers.BOMB_DELAY_BLOCKS = NEVER if reward else self.headers.BOMB_DELAY_OF_FORK
        rewards = part("london", "fork") if later else self.fork
        names = {"BLOCK_REWARD": U256(int(reward))} if reward else {}
        if later:
            create = part("london", "state").create_ether
            names["create_ether"] = with_names(create, modify_state=self.state.modify_state)
        self.pay_rewards = with_names(rewards.pay_rewards, **names)
        if later:
            instructions = part(fork, "vm.instructions")
            byte = instructions.Ops.BASEFEE
            base_fee = part(fork, "vm.instructions.environment").base_fee
            invalid = part(fork, "vm.exceptions").InvalidOpcode

            def no_instruction(_):
                raise invalid(byte.value)

            instructions.op_implementation[byte] = no_instruction if reward else base_fee

    def decode(self, raw):
        """The transaction with these bytes."""
        legacy = getattr(self.transactions, "LegacyTransaction", None)
        if legacy is None:
            return rlp.decode_to(self.transactions.Transaction, raw)
        if raw[0] >= 0xC0:
            return rlp.decode_to(legacy, raw)
        return self.transactions.decode_transaction(Bytes(raw))

    def header(self, fields, **computed):
        """A header. Without computed roots it is one of an empty block."""
        root = self.trie.root(self.trie.Trie(secured=False, default=None))
        values = {
            "state_root": root,
            "transactions_root": root,
            "receipt_root": root,
            "bloom": self.types.Bloom(bytes(BLOOM_BYTES)),
            "gas_used": Uint(0),
        }
        for name, member in [
            ("state_root", "stateRoot"),
            ("transactions_root", "transactionsRoot"),
            ("receipt_root", "receiptsRoot"),
        ]:
            if member in fields:
                values[name] = Bytes32(unhex(fields[member]))
        if "logsBloom" in fields:
            values["bloom"] = self.types.Bloom(unhex(fields["logsBloom"]))
        if "gasUsed" in fields:
            values["gas_used"] = Uint(number(fields["gasUsed"]))
        return self.blocks.Header(
            parent_hash=Bytes32(unhex(fields["parentHash"])),
            ommers_hash=Bytes32(unhex(fields["uncleHash"])),
            coinbase=Bytes20(unhex(fields["coinbase"])),
            difficulty=Uint(number(fields["difficulty"])),
            number=Uint(number(fields["number"])),
            gas_limit=Uint(number(fields["gasLimit"])),
            timestamp=U256(number(fields["timestamp"])),
            extra_data=Bytes(unhex(fields["extraData"])),
            mix_digest=Bytes32(unhex(fields["mixHash"])),
            nonce=Bytes8(unhex(fields["nonce"])),
            **(values | computed),
        )


def state_of(rules, pre):
    state = rules.state.State()
    for text, account in pre.items():
        address = Bytes20(unhex(text))
        record = rules.types.Account(
            nonce=Uint(number(account["nonce"])),
            balance=U256(number(account["balance"])),
            code=Bytes(unhex(account["code"])),
        )
        rules.state.set_account(state, address, record)
        for slot, value in account["storage"].items():
            rules.state.set_storage(state, address, Bytes32(unhex(slot)), U256(number(value)))
    return state


def recorder(steps):
    """A function that records where each instruction begins."""

    def record(evm, event, *_, **__):
        if isinstance(event, ethereum.trace.OpStart) and len(steps) < STEPS_MAX:
            steps.append([int(evm.pc), int(event.op.value), int(evm.gas_left), int(evm.message.depth) + 1])

    return record


def run_candidate(rules, env, output, index, raw):
    """Executes a raw transaction as the next one of a block. Returns its outcome."""
    used = output.block_gas_used
    try:
        transaction = rules.decode(unhex(raw))
        # EIP-2930 asks for it. The specification forgets it, in every fork.
        if hasattr(transaction, "chain_id") and transaction.chain_id != env.chain_id:
            raise ValueError(f"chain id {transaction.chain_id}, expected {env.chain_id}")
        rules.fork.process_transaction(env, output, transaction, Uint(index))
    except Exception as error:
        rules.trie.trie_set(output.transactions_trie, rlp.encode(Uint(index)), None)
        return {"refused": f"{type(error).__name__} {error}"[:200]}
    receipt = rules.trie.trie_get(output.receipts_trie, rlp.encode(Uint(index)))
    encoded = receipt if isinstance(receipt, bytes) else rlp.encode(receipt)
    return {"gasUsed": int(output.block_gas_used - used), "receipt": as_hex(encoded)}


def run_block(rules, chain, request, base_fee, trace_at, steps):
    fields = request["header"]
    empty = rules.header(fields)
    values = {
        "chain_id": chain.chain_id,
        "state": chain.state,
        "block_gas_limit": empty.gas_limit,
        "block_hashes": rules.headers.get_last_256_block_hashes(chain),
        "coinbase": empty.coinbase,
        "number": empty.number,
        "base_fee_per_gas": Uint(base_fee),
        "time": empty.timestamp,
        "difficulty": empty.difficulty,
        # Ethereum Classic has the difficulty there, by the same instruction.
        "prev_randao": empty.difficulty.to_be_bytes32(),
    }
    known = rules.vm.BlockEnvironment.__annotations__
    env = rules.vm.BlockEnvironment(**{name: value for name, value in values.items() if name in known})
    output = rules.vm.BlockOutput()
    outcomes, included = [], []
    for index, raw in enumerate(request["transactions"]):
        if index == trace_at:
            rules.steps.listen(True)
            ethereum.trace.set_evm_trace(recorder(steps))
        outcome = run_candidate(rules, env, output, len(included), raw)
        if index == trace_at:
            rules.steps.listen(False)
        outcomes.append(outcome)
        if "refused" not in outcome:
            included.append(raw)
    ommers = tuple(rules.header(uncle) for uncle in request["uncles"])
    rules.pay_rewards(chain.state, empty.number, empty.coinbase, ommers)
    header = rules.header(
        fields,
        state_root=rules.state.state_root(chain.state),
        transactions_root=rules.trie.root(output.transactions_trie),
        receipt_root=rules.trie.root(output.receipts_trie),
        bloom=rules.bloom.logs_bloom(output.block_logs),
        gas_used=output.block_gas_used,
    )
    answer = {
        "hash": as_hex(keccak256(rlp.encode(header))),
        "stateRoot": as_hex(header.state_root),
        "receiptsRoot": as_hex(header.receipt_root),
        "transactionsRoot": as_hex(header.transactions_root),
        "logsBloom": as_hex(header.bloom),
        "gasUsed": int(header.gas_used),
        "transactions": outcomes,
    }
    refused = validity(rules, chain, header, ommers)
    if refused:
        answer["hash"] = f"the header or an uncle is not valid: {refused}"
    chain.blocks.append(rules.blocks.Block(header=header, transactions=(), ommers=ommers))
    return answer


def validity(rules, chain, header, ommers):
    """The reason why a header or its uncles are not valid after the last block; None if they are."""
    try:
        rules.headers.validate_header(chain, header)
        rules.headers.validate_ommers(ommers, header, chain)
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} {error} in {at.name}:{at.lineno}: {at.line}"[:200]
    return None


def chain_of(rules, request, state):
    genesis = rules.header(request["genesis"], state_root=rules.state.state_root(state))
    block = rules.blocks.Block(header=genesis, transactions=(), ommers=())
    return rules.headers.BlockChain(blocks=[block], state=state, chain_id=U64(request["chainId"]))


def headers_answer(rules, request):
    """Whether each of `variants`, a header with uncles, may follow its parent or else the blocks of `headers`."""

    def chain(blocks):
        return rules.headers.BlockChain(blocks=blocks, state=rules.state.State(), chain_id=U64(1))

    def block(one):
        ommers = tuple(rules.header(uncle) for uncle in one["uncles"])
        return rules.blocks.Block(header=rules.header(one["header"]), transactions=(), ommers=ommers)

    common = chain([block(one) for one in request["headers"]])
    verdicts = []
    for one in request["variants"]:
        parent = one["parent"] and block({"header": one["parent"], "uncles": []})
        judged = block(one)
        verdicts.append(validity(rules, chain([parent]) if parent else common, judged.header, judged.ommers))
    return {"verdicts": verdicts}


def answer(request):
    rules = Rules(request["hardfork"], request["minerReward"])
    if "variants" in request:
        return headers_answer(rules, request)
    state = state_of(rules, request["pre"])
    chain = chain_of(rules, request, state)
    genesis_root = as_hex(chain.blocks[0].header.state_root)
    trace, steps, blocks = request["trace"] or {}, [], []
    for index, block in enumerate(request["blocks"]):
        trace_at = trace["transaction"] if trace.get("block") == index else None
        blocks.append(run_block(rules, chain, block, request["baseFee"], trace_at, steps))
    return {"genesisRoot": genesis_root, "blocks": blocks, "steps": steps}


def main():
    sys.setrecursionlimit(100_000)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception:
            reply = {"error": traceback.format_exc()}
        print(json.dumps(reply), flush=True)


main()
