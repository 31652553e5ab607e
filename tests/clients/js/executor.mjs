// An independent executor of blocks: the package @ethereumjs/vm. It reads a JSON request from each line of its
// input and writes a JSON answer to each line of its output. It knows nothing about the node.
//
// Request: `hardfork` and `eips` (names of @ethereumjs/common), perhaps `minerReward` (in wei, where it is not the
// hardfork's), `chainId`, `pre` (the accounts of block 0), `blocks`, and perhaps `trace`. A block has `header` (without the roots), `uncles` and `transactions`, raw ones
// that may be invalid: the answer says of each whether it was executed. `trace` is the place of a transaction,
// `{block, transaction}`, whose steps the answer has.

import { createInterface } from 'node:readline';

import { createBlock, createBlockHeader, genTransactionsTrieRoot } from '@ethereumjs/block';
import { Mainnet, createCustomCommon } from '@ethereumjs/common';
import { MerklePatriciaTrie } from '@ethereumjs/mpt';
import { RLP } from '@ethereumjs/rlp';
import { createTxFromRLP } from '@ethereumjs/tx';
import {
    Account, KECCAK256_RLP, bytesToHex, createAddressFromString, hexToBytes, setLengthLeft,
} from '@ethereumjs/util';
import { Bloom, createVM, encodeReceipt, runBlock, runTx } from '@ethereumjs/vm';

/** The most steps of a trace. */
const STEPS_MAX = 200_000;

/** EIPs that the package refuses without a later hardfork, although it needs nothing of that hardfork for them. */
const FREE_EIPS = [3651];

/** The rules of a request, from block 0 on. */
function commonOf({ hardfork, eips, chainId, minerReward }) {
    const chain = { chainId, name: 'differential', defaultHardfork: hardfork };
    const free = eips.filter((eip) => FREE_EIPS.includes(eip));
    const common = createCustomCommon(chain, Mainnet, { hardfork, eips: eips.filter((eip) => !free.includes(eip)) });
    const { isActivatedEIP, param } = common;
    // The package copies this object, so the functions ask the copy that they belong to.
    common.isActivatedEIP = function (eip) {
        return free.includes(eip) || isActivatedEIP.call(this, eip);
    };
    if (minerReward) {
        common.param = function (name) {
            return name === 'minerReward' ? BigInt(minerReward) : param.call(this, name);
        };
    }
    return common;
}

/** Answers BLOCKHASH from the parent hashes of the request's headers. */
function hashesOf(blocks) {
    const hashes = new Map(blocks.map(({ header }) => [BigInt(header.number) - 1n, hexToBytes(header.parentHash)]));
    const chain = {
        getBlock: async (number) => ({ hash: () => hashes.get(BigInt(number)) ?? new Uint8Array(32) }),
        putBlock: async () => {},
        shallowCopy: () => chain,
    };
    return chain;
}

async function putAccounts(stateManager, pre) {
    for (const [text, { balance, nonce, code, storage }] of Object.entries(pre)) {
        const address = createAddressFromString(text);
        await stateManager.putAccount(address, new Account(BigInt(nonce), BigInt(balance)));
        if (code !== '0x') await stateManager.putCode(address, hexToBytes(code));
        for (const [slot, value] of Object.entries(storage)) {
            const key = setLengthLeft(hexToBytes(slot), 32);
            await stateManager.putStorage(address, key, hexToBytes(value));
        }
    }
    await stateManager.flush();
}

/** Executes a raw transaction as the next one of a block. Returns its outcome, or why it is refused. */
async function runCandidate(vm, block, gasUsed, raw) {
    try {
        const tx = createTxFromRLP(hexToBytes(raw), { common: vm.common });
        const errors = tx.getValidationErrors();
        if (errors.length > 0) return { refused: errors.join(', ') };
        if (tx.gasLimit > block.header.gasLimit - gasUsed) return { refused: 'more gas than the block has left' };
        return { tx, result: await runTx(vm, { tx, block, blockGasUsed: gasUsed }) };
    } catch (error) {
        return { refused: error.message.slice(0, 200) };
    }
}

/** Records the steps of what runs meanwhile: pairs of program counter and opcode, with gas and depth. */
async function traced(vm, steps, run) {
    const record = ({ pc, opcode, gasLeft, depth }, resume) => {
        if (steps.length < STEPS_MAX) steps.push([pc, opcode.code, Number(gasLeft), depth + 1]);
        resume?.();
    };
    vm.evm.events.on('step', record);
    try {
        return await run();
    } finally {
        vm.evm.events.off('step', record);
    }
}

async function runOne(vm, { header, uncles, transactions }, traceAt, steps) {
    const { common } = vm;
    const headerOf = (fields) => createBlockHeader(fields, { common });
    const empty = createBlock({ header }, { common });
    const bloom = new Bloom(undefined, common);
    const outcomes = [];
    const included = [];
    const receipts = [];
    let gasUsed = 0n;
    for (const [index, raw] of transactions.entries()) {
        const run = () => runCandidate(vm, empty, gasUsed, raw);
        const { refused, tx, result } = index === traceAt ? await traced(vm, steps, run) : await run();
        if (refused !== undefined) {
            outcomes.push({ refused });
            continue;
        }
        gasUsed += result.totalGasSpent;
        bloom.or(result.bloom);
        const receipt = encodeReceipt(result.receipt, tx.type);
        included.push(tx);
        receipts.push(receipt);
        outcomes.push({ gasUsed: Number(result.totalGasSpent), receipt: bytesToHex(receipt) });
    }
    // A block without transactions pays the rewards.
    const paid = createBlock({ header, uncleHeaders: uncles.map(headerOf) }, { common });
    const { stateRoot } = await runBlock(vm, { block: paid, generate: true, skipBlockValidation: true });
    const trie = new MerklePatriciaTrie({ common });
    for (const [index, receipt] of receipts.entries()) await trie.put(RLP.encode(index), receipt);
    const roots = {
        stateRoot,
        transactionsTrie: included.length === 0 ? KECCAK256_RLP : await genTransactionsTrieRoot(included),
        receiptTrie: receipts.length === 0 ? KECCAK256_RLP : trie.root(),
        logsBloom: bloom.bitvector,
    };
    return {
        hash: bytesToHex(headerOf({ ...header, ...roots, gasUsed }).hash()),
        stateRoot: bytesToHex(stateRoot),
        receiptsRoot: bytesToHex(roots.receiptTrie),
        transactionsRoot: bytesToHex(roots.transactionsTrie),
        logsBloom: bytesToHex(roots.logsBloom),
        gasUsed: Number(gasUsed),
        transactions: outcomes,
    };
}

async function answer(request) {
    const vm = await createVM({ common: commonOf(request), blockchain: hashesOf(request.blocks) });
    await putAccounts(vm.stateManager, request.pre);
    const genesisRoot = bytesToHex(await vm.stateManager.getStateRoot());
    const blocks = [];
    const steps = [];
    for (const [index, block] of request.blocks.entries()) {
        const traceAt = request.trace?.block === index ? request.trace.transaction : undefined;
        blocks.push(await runOne(vm, block, traceAt, steps));
    }
    return { genesisRoot, blocks, steps };
}

for await (const line of createInterface({ input: process.stdin })) {
    let reply;
    try {
        reply = await answer(JSON.parse(line));
    } catch (error) {
        reply = { error: `${error.stack ?? error}` };
    }
    process.stdout.write(`${JSON.stringify(reply)}\n`);
}
