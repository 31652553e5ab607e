// Shared by the scripts about MicroChain contracts: accounts, contracts, transactions, blocks, signatures.
//
// Calls are encoded and sent by chain3, as the public scripts do. Answers are decoded with ethers, because
// chain3 does not know the tuples of getVnodeInfo, getProposal and getDappList.

import Chain3 from 'chain3';
import { Interface, SigningKey, concat, sha256, toBeHex } from 'ethers';
import { promisify } from 'node:util';
import { assert, waitFor } from './common.mjs';

export const COIN = 10n ** 18n;
export const ZERO = `0x${'0'.repeat(40)}`;
export const NO_HASH = `0x${'0'.repeat(64)}`;
/// The highest price at which a flush is allowed.
export const GAS_PRICE = 20_000_000_000;
const NOTICE_BOARD = '0x000000000000000000000000000000000000000d';

/** Slots of a chain base without a function: who proposes first, the last flush, who may register. */
export const SLOTS = { turn: 0x09, lastFlush: 0x0d, registration: 0x15 };

/** The names of the notices, by number. */
export const NOTICES = {
    registerOpen: 0, registerClose: 1, createProposal: 2, approve: 4, registerAdd: 5, monitor: 6, backup: 7,
    updateLastFlush: 8, distribute: 9, reset: 10, uploadRedeem: 11, enterAndRedeem: 12, release: 13,
};

/** A node with accounts that it signs for. With `makesBlocks` it makes blocks when it is asked. */
export class Rig {
    constructor({ url, contracts, accounts, makesBlocks = false }) {
        this.chain3 = new Chain3(new Chain3.providers.HttpProvider(url));
        this.compiled = contracts;
        this.makesBlocks = makesBlocks;
        this.keys = new Map(accounts.map(({ address, key }) => [address.toLowerCase(), new SigningKey(key)]));
        this.sending = new Map();
        this.pool = null;
        this.counts = { transactions: 0, created: {} };
    }

    async head() {
        return promisify(this.chain3.mc.getBlockNumber)();
    }

    async balance(address) {
        return BigInt((await promisify(this.chain3.mc.getBalance)(address)).toFixed(0));
    }

    /** Waits until the head is at least `number`. The patience is for one block, because there may be many. */
    async block(number) {
        const missing = number - (await this.head());
        if (this.makesBlocks && missing > 0) await this.request('evm_mine', [{ blocks: missing }]);
        for (let head = await this.head(); head < number; ) {
            head = await waitFor(`block ${head + 1}`, async () => {
                const now = await this.head();
                return now > head ? now : null;
            });
        }
    }

    /** Sends a request that chain3 has no member for. */
    request(method, params) {
        return new Promise((resolve, reject) => {
            this.chain3.currentProvider.sendAsync({ jsonrpc: '2.0', id: 1, method, params }, (error, answer) => {
                if (error || answer.error) reject(error ?? new Error(answer.error.message));
                else resolve(answer.result);
            });
        });
    }

    /** Sends a transaction and waits for its receipt, whatever its status is. */
    async transact(transaction) {
        const filled = { gas: 3_000_000, gasPrice: GAS_PRICE, ...transaction };
        if (filled.value !== undefined) filled.value = this.chain3.toHex(filled.value.toString());
        // The node gives out nonces, so transactions of an account are sent one after the other.
        const before = this.sending.get(filled.from) ?? Promise.resolve();
        const sent = before.catch(() => {}).then(() => promisify(this.chain3.mc.sendTransaction)(filled));
        this.sending.set(filled.from, sent);
        const hash = await sent;
        this.counts.transactions += 1;
        return waitFor(`a receipt of ${hash}`, () => promisify(this.chain3.mc.getTransactionReceipt)(hash));
    }

    /** Creates a contract and waits until it exists. */
    async create(name, from, args, { gas = 8_900_000, value } = {}) {
        const { abi, bytecode } = this.compiled[name];
        const data = args === null ? bytecode : this.chain3.mc.contract(abi).new.getData(...args, { data: bytecode });
        const receipt = await this.transact({ from, data, gas, value });
        assert.equal(receipt.status, '0x1', `${name} is created`);
        const code = await promisify(this.chain3.mc.getCode)(receipt.contractAddress);
        this.counts.created[name] = { bytes: (code.length - 2) / 2, gas: receipt.gasUsed };
        if (name === 'ScsPool') this.pool = receipt.contractAddress.toLowerCase();
        return new Contract(this, name, receipt.contractAddress.toLowerCase());
    }

    /** Signs that `microChain` may lock `amount` of the bond of `scs` in the pool, without a prefix. */
    agreement(scs, microChain, amount = COIN) {
        const { v, r, s } = this.keys.get(scs).sign(sha256(concat([scs, microChain, toBeHex(amount, 32), this.pool])));
        return [v, r, s];
    }

    /** The notices that a transaction gave, in order. */
    async notices(receipt) {
        const trace = await this.request('debug_traceTransaction', [receipt.transactionHash, { tracer: 'callTracer' }]);
        const found = [];
        const walk = (call) => {
            if (call.to === NOTICE_BOARD) found.push([call.from, Number(BigInt(`0x${call.input.slice(-64)}`))]);
            (call.calls ?? []).forEach(walk);
        };
        walk(trace);
        return found;
    }
}

/** A contract at an address. */
export class Contract {
    constructor(rig, name, address) {
        this.rig = rig;
        this.name = name;
        this.address = address;
        this.abi = rig.compiled[name].abi;
        this.encoder = rig.chain3.mc.contract(this.abi).at(address);
        this.decoder = new Interface(this.abi);
    }

    data(method, args) {
        return this.encoder[method].getData(...args);
    }

    /** Reads with `mc_call`. One value comes alone, several as a list; integers are BigInt. */
    async read(method, ...args) {
        return this.readAt('latest', method, ...args);
    }

    /** Returns the result of a function on the state after a block. */
    async readAt(block, method, ...args) {
        const call = { to: this.address, data: this.data(method, args), gas: 50_000_000 };
        const answer = await promisify(this.rig.chain3.mc.call)(call, block);
        const values = this.decoder.decodeFunctionResult(method, answer).map(plain);
        return values.length === 1 ? values[0] : values;
    }

    /** Returns the result that a call from `from` would have, without a transaction. */
    async trial(method, args, from, { value, gasPrice = GAS_PRICE } = {}) {
        const call = { from, to: this.address, data: this.data(method, args), gas: 5_000_000, gasPrice };
        if (value !== undefined) call.value = this.rig.chain3.toHex(value.toString());
        const answer = await promisify(this.rig.chain3.mc.call)(call);
        return this.decoder.decodeFunctionResult(method, answer).map(plain)[0];
    }

    /** Sends a call, which must succeed and give exactly `notices`. */
    async send(method, args, from, { notices, ...options } = {}) {
        const receipt = await this.rig.transact({ from, to: this.address, data: this.data(method, args), ...options });
        assert.equal(receipt.status, '0x1', `${this.name}.${method} from ${from} succeeds`);
        if (notices !== undefined) {
            const got = await this.rig.notices(receipt);
            const expected = notices.map((name) => [this.address, NOTICES[name]]);
            assert.deepEqual(got, expected, `the notices of ${this.name}.${method}`);
        }
        return receipt;
    }

    /** Sends a call that must fail. */
    async refused(method, args, from, options = {}) {
        const receipt = await this.rig.transact({ from, to: this.address, data: this.data(method, args), ...options });
        assert.equal(receipt.status, '0x0', `${this.name}.${method} from ${from} fails`);
        return receipt;
    }

    /** A number in the contract's storage. */
    async slot(index) {
        const word = await promisify(this.rig.chain3.mc.getStorageAt)(this.address, this.rig.chain3.toHex(index));
        return BigInt(word);
    }

    /** The events of this contract in a receipt. */
    events(receipt) {
        const logs = receipt.logs.filter((log) => log.address.toLowerCase() === this.address);
        return logs.map((log) => {
            const { name, args } = this.decoder.parseLog(log);
            return [name, ...args.map(plain)];
        });
    }
}

/** Decoded values as plain lists; addresses in lower case, so that they can be compared. */
function plain(value) {
    if (typeof value === 'string') return /^0x[0-9a-fA-F]{40}$/.test(value) ? value.toLowerCase() : value;
    if (typeof value === 'bigint' || typeof value === 'boolean') return value;
    return Array.from(value, plain);
}

/** A fresh address, different for each `label`, that nobody has a key for. */
export function somebody(label) {
    return `0x${sha256(Buffer.from(label)).slice(26)}`;
}

/** Names of the fields of getVnodeInfo and getProposal, in order. */
const INFO = ['protocol', 'members', 'rewards', 'proposalExpiration', 'vnodePool', 'penaltyBond', 'status', 'owner',
    'balance', 'redeems', 'nodeList', 'nodesToJoin'];
const PROPOSAL = ['proposedBy', 'lastApproved', 'hash', 'start', 'end', 'distributionAmount', 'flag', 'startingBlock',
    'voters', 'votecount', 'badActors', 'via', 'preRedeemNum', 'redeemAddr', 'redeemAmt', 'minerAddr',
    'distributeFlag', 'redeemAgreeList'];

const named = (names, values) => {
    assert.equal(values.length, names.length, 'fields of the struct');
    return Object.fromEntries(names.map((name, index) => [name, values[index]]));
};

export const vnodeInfo = async (chain, block = 'latest') => named(INFO, await chain.readAt(block, 'getVnodeInfo'));
export const proposal = async (chain, types) => named(PROPOSAL, await chain.read('getProposal', types));
