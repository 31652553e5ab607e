// A MicroChain from nothing to its second flush, with real processes: one VNODE, three SCSs, a monitor, and a backup that joins.
// One SCS is killed in the middle and comes back.
//
// Argument: {url, service, via, scs, folder, compiled, chainId, accounts}. `scs` is the path of the program, `accounts` have keys
// and are unlocked on the VNODE. The result has the figures of what was seen.

import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { Interface } from 'ethers';
import { argument, assert, run, say, waitFor } from './common.mjs';
import { COIN, Rig, proposal, vnodeInfo } from './microchain-rig.mjs';

const { url, service, via, scs, folder, compiled, chainId, accounts } = argument;
const { contracts } = JSON.parse(readFileSync(compiled, 'utf8'));
const PERIOD = 1;
const ROUND = 40;
const RATE = 1000n;
const SUPPLY = 1_000_000n * COIN;
const SENDERS = 4;
const EACH = 50;
/// What a chain base pays at first for a block, a transaction, and the via.
const REWARDS = [5n * 10n ** 14n, 10n ** 11n, 10n ** 16n];
/// The selectors of `requestProposalAction` and `createProposal`.
const [ACT, PROPOSE] = ['0xcc819ad0', '0x1463ef07'];

const lower = (text) => text.toLowerCase();
const [, owner, ...users] = accounts.map(({ address }) => lower(address));
const dappBase = new Interface(contracts.DappBase.abi);
const token = new Interface(contracts.Token.abi);

async function rpc(at, method, ...params) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const answer = await fetch(at, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const { result, error } = await answer.json();
    if (error) throw new Error(`${method}: ${error.message}`);
    return result;
}

/** Waits longer than `waitFor`, for what takes many blocks. */
async function waitLong(what, look) {
    for (let turn = 0; ; turn += 1) {
        try {
            return await waitFor(what, look);
        } catch (error) {
            if (turn >= 3) throw error;
        }
    }
}

/** An SCS process in a folder of its own. */
class Server {
    constructor(name) {
        this.name = name;
        this.home = `${folder}/${name}`;
        mkdirSync(this.home, { recursive: true });
        const settings = { VnodeServiceCfg: service, VnodechainId: chainId, BondLimit: 1, ReWardMin: 0.0001, ReconnectInterval: 1 };
        writeFileSync(`${this.home}/userconfig.json`, JSON.stringify(settings));
    }

    async start() {
        this.child = spawn(scs, ['--rpc', '--rpcport', '0', '--period', `${PERIOD}`, '--verbosity', '4'], { cwd: this.home, stdio: ['ignore', 'pipe', 'pipe'] });
        let printed = '';
        this.child.stdout.on('data', (text) => (printed += text));
        this.log = '';
        this.child.stderr.on('data', (text) => (this.log = (this.log + text).slice(-20_000)));
        process.on('exit', () => this.child.kill('SIGKILL'));
        await waitFor(`the start of ${this.name}`, () => printed.match(/endpoint +(http:\S+)/));
        this.id = lower(printed.match(/SCS id +(0x\w+)/)[1]);
        this.url = printed.match(/endpoint +(http:\S+)/)[1];
        return this;
    }

    async kill() {
        const ended = new Promise((resolve) => this.child.on('exit', resolve));
        this.child.kill('SIGKILL');
        await ended;
    }

    call(method, ...params) {
        return rpc(this.url, `scs_${method}`, ...params);
    }
}

run(async () => {
    const rig = new Rig({ url, contracts, accounts });
    const [a, b, c, backup, monitor] = await Promise.all(['a', 'b', 'c', 'backup', 'monitor'].map((name) => new Server(name).start()));
    const members = [a, b, c];
    const [pool, vnodes] = await Promise.all([rig.create('ScsPool', owner, ['POR', 10, 0]), rig.create('VnodePool', owner, [1])]);
    const chain = await rig.create('ChainBase', owner, [pool.address, vnodes.address, 3, 11, 1000, ROUND, SUPPLY / COIN, RATE]);
    const at = chain.address;
    await Promise.all([
        chain.send('addFund', [], owner, { value: 100n * COIN }),
        vnodes.send('register', [via, via, service, url], owner, { value: COIN }),
        ...[...members, backup].map(({ id }) => rig.transact({ from: users[6], to: id, value: 5n * COIN, gas: 21_000 })),
        ...members.map(({ id }) => pool.send('register', [id], owner, { value: 10n * COIN })),
    ]);
    await rig.block((await rig.head()) + 6);
    await chain.send('registerOpen', [], owner);
    await waitFor('three members', async () => ((await chain.read('nodeCount')) === 3n ? true : null));
    await chain.send('registerAsMonitor', [monitor.id, ''], users[6], { value: 10n ** 12n });
    await chain.send('registerClose', [], owner);
    say('registerClose');
    await waitFor('blocks', async () => (Number(await a.call('getBlockNumber', at)) >= 2 ? true : null));

    // DappBase, a token, its registration.
    const nonces = {};
    const send = (from, flag, data, value = 0n) => {
        const nonce = nonces[from] ?? 0;
        nonces[from] = nonce + 1;
        return rpc(url, 'mc_sendTransaction', {
            from, to: at, nonce: `0x${nonce.toString(16)}`, gas: '0x0', gasPrice: '0x0', shardingFlag: `0x${flag}`, via, data,
            value: `0x${value.toString(16)}`,
        });
    };
    const receipt = (hash) => waitFor(`a receipt of ${hash}`, () => a.call('getReceiptByHash', at, hash));
    const works = async (sent) => {
        const found = await receipt(await sent);
        assert.equal(found.failed, false, JSON.stringify(found));
        return found;
    };
    const code = (name, args) => rig.chain3.mc.contract(contracts[name].abi).new.getData(...args, { data: contracts[name].bytecode });
    const base = (await works(send(owner, 3, code('DappBase', ['LIFE', true]), SUPPLY))).contractAddress;
    const coin = (await works(send(owner, 3, code('Token', ['Life', 'LIF', 0, 1_000_000])))).contractAddress;
    const on = (dapp, data) => dapp + data.slice(2);
    await works(send(owner, 1, on(base, dappBase.encodeFunctionData('registerDapp', [coin, owner, '[]']))));
    assert.deepEqual(await a.call('getDappAddrList', at), [base, coin]);
    say('DappBase and a token');

    // Transactions of the Dapp, and a deposit meanwhile.
    const senders = users.slice(0, SENDERS);
    for (const sender of senders) await send(owner, 1, on(coin, token.encodeFunctionData('transfer', [sender, EACH])));
    const depositor = users[4];
    const deposit = rig.transact({ from: depositor, to: at, value: 2n * COIN, data: chain.data('buyMintToken', []), gas: 400_000 });
    await works(send(owner, 1, on(coin, token.encodeFunctionData('transfer', [users[5], 1]))));
    const began = Date.now();
    const hashes = [];
    for (let round = 0; round < EACH; round += 1) {
        for (const sender of senders) hashes.push(await send(sender, 1, on(coin, token.encodeFunctionData('transfer', [users[5], 1]))));
    }
    const receipts = [];
    for (const hash of hashes) receipts.push(await receipt(hash));
    assert.ok(receipts.every(({ failed }) => !failed));
    const took = (Date.now() - began) / 1000;
    const balanceOf = async (server, account) => {
        const data = token.encodeFunctionData('balanceOf', [account]);
        return token.decodeFunctionResult('balanceOf', await server.call('directCall', { to: at, dappAddr: coin, data }))[0];
    };
    assert.equal(await balanceOf(a, users[5]), BigInt(1 + SENDERS * EACH));
    say(`${hashes.length} transactions in ${took} s`);
    await deposit;
    const balance = async (server, account) => BigInt(await server.call('getBalance', at, account));
    await waitFor('the deposit', async () => ((await balance(a, depositor)) === 2n * RATE * COIN ? true : null));
    say('deposit');

    // The rewards of a flush follow from the transactions of the base chain alone: each action that was done before the proposal
    // has lowered them by 80 millionths.
    const actions = [];
    const proposed = {};
    let scanned = 0;
    const succeeded = async ({ hash }) => {
        const trace = await rig.request('debug_traceTransaction', [hash, { tracer: 'callTracer' }]);
        return !trace.error && BigInt(trace.output) === 1n;
    };
    const scan = async () => {
        for (const head = await rig.head(); scanned < head; ) {
            scanned += 1;
            const { transactions } = await rpc(url, 'mc_getBlockByNumber', `0x${scanned.toString(16)}`, true);
            for (const sent of transactions.filter(({ to }) => lower(to ?? '') === at)) {
                const word = (index) => `0x${sent.input.slice(10 + 64 * index, 74 + 64 * index)}`;
                if (sent.input.startsWith(ACT) && await succeeded(sent)) actions.push({ block: scanned, hash: word(1) });
                // Seven heads of arguments, then the length of the first list, the last flush, this one.
                if (sent.input.startsWith(PROPOSE) && await succeeded(sent)) proposed[word(9)] = scanned;
            }
        }
    };
    const lowered = (rewards) => rewards.map((reward) => reward - (reward * 80n) / 1_000_000n);
    const rewardsOf = async (hash) => {
        await scan();
        const before = actions.filter(({ block }) => block < proposed[hash]);
        const rewards = before.reduce(lowered, REWARDS);
        assert.deepEqual((await vnodeInfo(chain, proposed[hash])).rewards, rewards, `after ${before.length} actions`);
        return rewards;
    };
    const flushed = (before) => waitLong('a flush', async () => {
        const found = await proposal(chain, 2);
        return found.hash !== before && found.flag === 3n && found.distributeFlag > 0n ? found : null;
    });
    const flush = async (server, before) => {
        const found = await flushed(before);
        const known = await rewardsOf(found.hash);
        const { blockList } = await server.call('getBlockList', at, Number(found.start), Number(found.end));
        assert.equal(blockList.length, Number(found.end - found.start) + 1);
        const nodes = found.minerAddr;
        const expected = nodes.map((node) => blockList.filter(({ miner }) => miner === node)
            .reduce((sum, { transactions }) => sum + known[0] + known[1] * BigInt(transactions.length), 0n));
        assert.deepEqual(found.distributionAmount, expected, 'rewards to the last sha');
        return found;
    };
    const first = await flush(a, `0x${'0'.repeat(64)}`);
    assert.equal(first.start, 1n);
    say(`first flush: blocks ${first.start} to ${first.end}`);

    // A withdrawal, a backup, and one SCS that is killed: the last in turn.
    const nodes = (await vnodeInfo(chain)).nodeList;
    const victim = members.find(({ id }) => id === nodes[2]);
    await victim.kill();
    const reader = members.find((one) => one !== victim);
    // The very next flush is looked at. It may come before the withdrawal is in a flush.
    const nextFlush = flush(reader, first.hash);
    nextFlush.catch(() => {});
    const moved = 500n * COIN;
    nonces[depositor] = await reader.call('getNonce', at, depositor);
    const paidBefore = await rig.balance(depositor);
    const redeemed = await send(depositor, 1, on(base, dappBase.encodeFunctionData('redeemFromMicroChain')), moved);
    await waitFor('the withdrawal', () => reader.call('getReceiptByHash', at, redeemed));
    const open = await reader.call('getExchangeInfo', at, 0, 10, 0, 10);
    assert.deepEqual([open.WithdrawingRecordCount, BigInt(open.WithdrawingRecords[1].WithdrawingAmt)], [1, moved]);
    await pool.send('register', [backup.id], owner, { value: 10n * COIN });
    await rig.block((await rig.head()) + 6);
    await chain.send('registerAdd', [4], owner);
    await waitFor('a backup', async () => ((await vnodeInfo(chain)).nodesToJoin.includes(backup.id) ? true : null));
    say('a backup follows');
    const second = await nextFlush;
    assert.equal(second.start, first.end + 1n);
    assert.equal(await waitLong('the payment', async () => ((await rig.balance(depositor)) > paidBefore ? await rig.balance(depositor) : null)), paidBefore + moved / RATE);
    const exchange = await reader.call('getExchangeByAddress', at, depositor, 0, 10, 0, 10, 0, 10, 0, 10);
    assert.deepEqual(
        [exchange.DepositRecordCount, exchange.DepositingRecordCount, exchange.WithdrawRecordCount, exchange.WithdrawingRecordCount],
        [1, 0, 1, 0],
    );
    say(`second flush: blocks ${second.start} to ${second.end}`);
    const joined = await waitLong('the backup as a member', async () => {
        const nodeList = (await vnodeInfo(chain)).nodeList.slice(0, Number(await chain.read('nodeCount')));
        return nodeList.includes(backup.id) ? nodeList : null;
    });

    // The killed one comes back, and all have the same blocks.
    await victim.start();
    const height = Number(await reader.call('getBlockNumber', at));
    const wanted = (await reader.call('getBlock', at, height)).hash;
    const all = [...members, monitor, backup];
    await waitFor('all SCSs at one block', async () => {
        const blocks = await Promise.all(all.map((one) => one.call('getBlock', at, height)));
        return blocks.every((block) => block?.hash === wanted) ? true : null;
    });
    for (const one of all) {
        assert.equal(await balanceOf(one, users[5]), BigInt(1 + SENDERS * EACH), one.name);
        const sum = (await balance(one, base)) + (await balance(one, depositor));
        assert.equal(sum, SUPPLY, 'no token comes from nowhere, and none is lost');
    }
    return { transactions: hashes.length, took, joined: joined.includes(backup.id), flushes: [Number(first.end), Number(second.end)], height };
});
