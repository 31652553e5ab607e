// Compares what an SCS answers with what the contracts say: the chain base on a VNODE, and DappBase on the MicroChain.

import { Interface } from 'ethers';
import { assert, waitFor } from './common.mjs';
import { boundHash } from './microchain-flush.mjs';
import { NO_HASH, ZERO, proposal, vnodeInfo } from './microchain-rig.mjs';

/// Pages of all lists of an account: so many entries from the newest on.
const PAGE = 20;

const lower = (text) => text.toLowerCase();

export class Answers {
    /** `chain` is the chain base, `base` the address of DappBase. */
    constructor({ chain, base, contracts }) {
        Object.assign(this, { chain, base, dappBase: new Interface(contracts.DappBase.abi) });
    }

    /** Returns the answer of DappBase on the MicroChain of `server`. */
    async ask(server, method, ...args) {
        const data = this.dappBase.encodeFunctionData(method, args);
        const answer = await server.call('directCall', { to: this.chain.address, data });
        return this.dappBase.decodeFunctionResult(method, answer);
    }

    /** Compares all that `server` answers, for these accounts. Their tokens and DappBase's must be the whole supply. */
    async check(server, accounts) {
        const at = this.chain.address;
        assert.equal(await server.call('getSCSId'), server.id);
        assert.equal(await server.call('listening'), true);
        assert.deepEqual(await server.call('getMicroChainList'), [at]);
        await this.checkInfo(server);
        const dapps = (await this.ask(server, 'getDappList'))[0].map(([address]) => lower(address));
        assert.deepEqual(await server.call('getDappList', at), [this.base, ...dapps]);
        assert.deepEqual(await server.call('getDappAddrList', at), [this.base, ...dapps]);
        for (const dapp of dapps) assert.equal((await this.ask(server, 'getDappState', dapp))[0], 1n);
        assert.equal(await server.call('getDappState', at), 1);
        const { balance: supply, redeems } = await vnodeInfo(this.chain);
        const held = await Promise.all([this.base, ...accounts].map((account) => server.call('getBalance', at, account)));
        assert.equal(held.reduce((sum, one) => sum + BigInt(one), 0n), supply, 'tokens of all accounts');
        for (const account of accounts) {
            await this.checkNonce(server, account);
            await this.checkExchange(server, account, redeems[0]);
        }
        await this.checkWaiting(server, redeems[0]);
        await this.checkFlushedBlocks(server);
        assert.deepEqual(await server.call('getTxpool', at), { pending: {}, queued: {} });
    }

    async checkInfo(server) {
        const at = this.chain.address;
        const hex = (value) => `0x${value.toString(16)}`;
        await waitFor(`what ${server.name} says of the contract`, async () => {
            const contract = await vnodeInfo(this.chain);
            const members = contract.nodeList.slice(0, Number(await this.chain.read('nodeCount')));
            const [blockReward, txReward, viaReward] = contract.rewards.map(hex);
            const expected = {
                balance: hex(contract.balance), blockReward, bondLimit: hex(contract.penaltyBond), owner: contract.owner,
                scsList: members, txReward, viaReward,
            };
            const got = await server.call('getMicroChainInfo', at);
            assert.deepEqual(Object.keys(got).sort(), Object.keys(expected).sort());
            const same = { ...got, owner: lower(got.owner), scsList: got.scsList.map(lower) };
            // The SCS reads the contract after each block, so it may be a moment late.
            return JSON.stringify(Object.entries(same).sort()) === JSON.stringify(Object.entries(expected).sort()) ? true : null;
        });
    }

    /** The nonce of an account is the number of its transactions, which are found by hash and by nonce. */
    async checkNonce(server, account) {
        const at = this.chain.address;
        const nonce = await server.call('getNonce', at, account);
        for (const used of new Set([0, nonce - 1].filter((one) => one >= 0 && one < nonce))) {
            const sent = await server.call('getTransactionByNonce', at, account, used);
            assert.deepEqual([sent?.from, BigInt(sent?.nonce ?? -1)], [account, BigInt(used)], `${server.name}, nonce ${used} of ${nonce}`);
            for (const method of ['getReceiptByHash', 'getTransactionByHash']) {
                assert.deepEqual(await server.call(method, at, sent.hash), sent);
            }
            assert.deepEqual(await server.call('getReceiptByNonce', at, account, `0x${used.toString(16)}`), sent);
            const block = await server.call('getBlock', at, sent.blockNumber);
            assert.deepEqual([block.hash, block.transactions[Number(sent.transactionIndex)]], [sent.blockHash, sent.hash]);
        }
        assert.equal(await server.call('getReceiptByNonce', at, account, nonce), null);
    }

    /** Compares a list of an answer with the amounts and times of a contract, the oldest first. */
    checkList(answer, name, [amounts, times], users) {
        const expected = Array.from(amounts, (amount, index) => ({
            ...(users && { address: lower(users[index]) }), [`${name}Amt`]: `0x${amount.toString(16)}`, [`${name}time`]: `0x${times[index].toString(16)}`,
        })).reverse();
        assert.equal(answer[`${name}RecordCount`], expected.length, name);
        // As many nulls stand before the entries.
        const list = expected.length === 0 ? null : [...expected.map(() => null), ...expected];
        assert.deepEqual(answer[`${name}Records`], list, name);
    }

    async checkExchange(server, account, redeemed) {
        const at = this.chain.address;
        const [position] = await this.ask(server, 'enterPos');
        const [, ...entering] = await this.chain.read('getEnteringAmount', account, position);
        const pages = Array(4).fill([0, PAGE]).flat();
        const answer = await server.call('getExchangeByAddress', at, account, ...pages);
        assert.deepEqual([answer.microchain, answer.sender], [at, account]);
        this.checkList(answer, 'Deposit', await this.ask(server, 'getEnterRecords', account));
        this.checkList(answer, 'Depositing', entering);
        this.checkList(answer, 'Withdraw', await this.chain.read('getRedeemRecords', account));
        this.checkList(answer, 'Withdrawing', (await this.ask(server, 'getRedeemMapping', account, redeemed)).slice(1));
    }

    async checkWaiting(server, redeemed) {
        const at = this.chain.address;
        const [position] = await this.ask(server, 'enterPos');
        const [depositors, ...entering] = await this.chain.read('getEnteringAmount', ZERO, position);
        const [users, ...redeeming] = await this.ask(server, 'getRedeemMapping', ZERO, redeemed);
        const answer = await server.call('getExchangeInfo', at, 0, PAGE, 0, PAGE);
        assert.deepEqual([answer.microchain, answer.scsid], [at, server.id]);
        this.checkList(answer, 'Depositing', entering, depositors);
        this.checkList(answer, 'Withdrawing', redeeming, users);
    }

    /** The blocks of the last flush are those whose hash the contract has (docs/microchain-design.md, 4). */
    async checkFlushedBlocks(server) {
        const at = this.chain.address;
        const flush = await proposal(this.chain, 2);
        if (flush.hash === NO_HASH) return;
        const { blockList, ...range } = await server.call('getBlockList', at, Number(flush.start), Number(flush.end));
        const hex = (value) => `0x${value.toString(16)}`;
        assert.deepEqual(range, { startBlk: hex(flush.start), endBlk: hex(flush.end), microchainAddress: at });
        assert.equal(blockList.length, Number(flush.end - flush.start) + 1);
        blockList.slice(1).forEach(({ parentHash }, index) => assert.equal(parentHash, blockList[index].hash));
        const last = blockList.at(-1);
        assert.deepEqual(await server.call('getBlock', at, hex(flush.end)), last);
        // The first 8 bytes name the branch of the base chain.
        const content = (hash) => hash.slice(18);
        assert.ok(flush.hash.startsWith('0x6d636633'), `${flush.hash} begins with mcf3`);
        assert.equal(content(boundHash(at, last.hash, null, flush)), content(flush.hash), 'the hash of the flush');
    }
}
