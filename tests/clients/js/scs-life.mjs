// A MicroChain from nothing to its second flush, with real processes: VNODEs, three SCSs, a monitor, and a backup that joins.
// One SCS is killed in the middle and comes back. With two VNODEs, which are peers and share the SCSs out, the second one is
// killed, too, and comes back.
//
// Argument: {vnode, scs, folder, compiled, chainId, vnodes: [{port, service, via}]}. `vnode` and `scs` are the paths of the programs.
// The result has the figures of what was seen.

import { readFileSync } from 'node:fs';
import Chain3 from 'chain3';
import { Interface, getAddress } from 'ethers';
import { promisify } from 'node:util';
import { argument, assert, run, say, waitFor } from './common.mjs';
import { Answers } from './scs-answers.mjs';
import { Server, Vnode, makeBlocks, showLogs } from './microchain-processes.mjs';
import { COIN, NO_HASH, Rig, proposal, vnodeInfo } from './microchain-rig.mjs';

const { vnode, scs, folder, compiled, chainId } = argument;
const { contracts } = JSON.parse(readFileSync(compiled, 'utf8'));
const PERIOD = 1;
const ROUND = 40;
const RATE = 1000n;
const SUPPLY = 1_000_000n * COIN;
const SENDERS = 4;
const EACH = 50;
/// Transactions of each after the first flush: more than 100 in all, so that the next round is not longer.
const LATER = 26;
/// Transactions before DappBase, without the one that waits for an earlier nonce.
const EARLY = 12;
/// The first rewards of a chain base for a block, a transaction, and the via.
const REWARDS = [5n * 10n ** 14n, 10n ** 11n, 10n ** 16n];
/// The selectors of `requestProposalAction` and `createProposal`.
const [ACT, PROPOSE] = ['0xcc819ad0', '0x1463ef07'];

const lower = (text) => text.toLowerCase();
const dappBase = new Interface(contracts.DappBase.abi);
const token = new Interface(contracts.Token.abi);

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

/** Waits until the VNODEs are peers and have the same chain. */
const peered = (nodes) => waitFor('VNODEs that are peers', async () => {
    const peers = await Promise.all(nodes.map((node) => node.call('net_peerCount')));
    if (peers.some((count) => BigInt(count) === 0n)) return null;
    const number = await nodes[0].call('mc_blockNumber');
    const blocks = await Promise.all(nodes.map((node) => node.call('mc_getBlockByNumber', number, false)));
    return blocks.every((block) => block?.hash === blocks[0].hash) ? true : null;
});

/** Compares the pool of an SCS with these transactions: [object as sent, hash], by nonce. `queued` ones wait for an earlier nonce. */
async function checkPool(server, at, sender, { pending, queued }) {
    const shown = ([{ from, to, nonce, gas, gasPrice, shardingFlag, data, value }, hash]) =>
        ({ hash, from, to, nonce, gas, gasPrice, shardingFlag, input: data, value, syscnt: '0x0', blockHash: null, blockNumber: null, transactionIndex: null });
    const byNonce = (all) => ({ [getAddress(sender)]: Object.fromEntries(all.map((one) => [Number(one[0].nonce), shown(one)])) });
    const chain3 = new Chain3();
    chain3.setScsProvider(new Chain3.providers.HttpProvider(server.url));
    const pool = await waitFor(`the pool of ${server.name}`, async () => {
        const content = await promisify(chain3.scs.getTxpool)(at);
        const count = Object.values(content.pending).concat(Object.values(content.queued)).flatMap(Object.keys).length;
        return count === pending.length + queued.length ? content : null;
    });
    assert.deepEqual(await server.call('getTxpool', at), pool, 'chain3 and JSON-RPC');
    const unsigned = (part) => Object.fromEntries(Object.entries(part).map(([account, all]) =>
        [account, Object.fromEntries(Object.entries(all).map(([nonce, { v, r, s, ...rest }]) => {
            for (const one of [v, r, s]) assert.match(one, /^0x[1-9a-f][0-9a-f]*$/);
            return [nonce, rest];
        }))]));
    assert.deepEqual(unsigned(pool.pending), byNonce(pending));
    assert.deepEqual(unsigned(pool.queued), byNonce(queued));
    // JavaScript sorts such members by itself, so their order is looked at in the text.
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'scs_getTxpool', params: [at] });
    const answer = await fetch(server.url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const order = Array.from((await answer.text()).matchAll(/"(\d+)":\{"hash"/g), ([, nonce]) => Number(nonce));
    assert.deepEqual(order, [...pending, ...queued].map(([{ nonce }]) => Number(nonce)), 'the order of the nonces');
}

async function life() {
    const nodes = argument.vnodes.map((one, index) => new Vnode({
        name: `vnode ${index}`, program: vnode, home: `${folder}/vnode-${index}`,
        args: ['--dev.seal', 'instant', '--dev.period', '0'], ...one,
    }));
    await Promise.all(nodes.map((node) => node.start()));
    const [{ url, accounts }, other] = nodes;
    if (other) {
        await other.call('admin_addPeer', (await nodes[0].call('admin_nodeInfo')).enode);
        await peered(nodes);
    }
    makeBlocks(nodes[0]);
    const [, owner, ...users] = accounts.map(({ address }) => lower(address));
    const rig = new Rig({ url, contracts, accounts });
    const names = ['a', 'b', 'c', 'backup', 'monitor'];
    const server = (name, index) =>
        new Server({ name, program: scs, home: `${folder}/${name}`, vnode: nodes[index % nodes.length], chainId, period: PERIOD });
    const [a, b, c, backup, monitor] = await Promise.all(names.map((name, index) => server(name, index).start()));
    const members = [a, b, c];
    const [pool, vnodes] = await Promise.all([rig.create('ScsPool', owner, ['POR', 10, 0]), rig.create('VnodePool', owner, [1])]);
    const chain = await rig.create('ChainBase', owner, [pool.address, vnodes.address, 3, 11, 1000, ROUND, SUPPLY / COIN, RATE]);
    const at = chain.address;
    await Promise.all([
        chain.send('addFund', [], owner, { value: 100n * COIN }),
        ...nodes.map(({ via, service, url }) => vnodes.send('register', [via, via, service, url], owner, { value: COIN })),
        ...[...members, backup].map(({ id }) => rig.transact({ from: users[6], to: id, value: 5n * COIN, gas: 21_000 })),
        ...members.map(({ id }) => pool.send('register', [id], owner, { value: 10n * COIN })),
    ]);
    await rig.block((await rig.head()) + 6);
    await chain.send('registerOpen', [], owner);
    await waitFor('three members', async () => ((await chain.read('nodeCount')) === 3n ? true : null));
    // Anybody can make an SCS a monitor. It serves the MicroChain if its operator wants it.
    await monitor.kill();
    monitor.args = ['--chains', at];
    await monitor.start();
    await chain.send('registerAsMonitor', [monitor.id, ''], users[6], { value: 10n ** 12n });
    await chain.send('registerClose', [], owner);
    say('registerClose');
    await waitFor('blocks', async () => (Number(await a.call('getBlockNumber', at)) >= 2 ? true : null));

    // Each transaction goes to the next VNODE.
    const nonces = {};
    let sends = 0;
    const transaction = (from, flag, data, value = 0n) => {
        const nonce = nonces[from] ?? 0;
        nonces[from] = nonce + 1;
        const { via } = nodes[sends % nodes.length];
        const hex = (of) => `0x${of.toString(16)}`;
        return { from, to: at, nonce: hex(nonce), gas: '0x0', gasPrice: '0x0', shardingFlag: hex(flag), via, data, value: hex(value) };
    };
    const send = (...params) => {
        const sent = transaction(...params);
        return nodes[sends++ % nodes.length].call('mc_sendTransaction', sent);
    };
    const receipt = (hash) => waitFor(`a receipt of ${hash}`, () => a.call('getReceiptByHash', at, hash));
    const works = async (sent) => {
        const found = await receipt(await sent);
        assert.equal(found.failed, false, JSON.stringify(found));
        return found;
    };
    const code = (name, args) => rig.chain3.mc.contract(contracts[name].abi).new.getData(...args, { data: contracts[name].bytecode });

    // Before DappBase exists, transactions wait.
    const early = [];
    const submit = async () => {
        const sent = transaction(users[7], 2, users[5]);
        early.push([sent, await nodes[sends++ % nodes.length].call('mc_sendTransaction', sent)]);
    };
    for (let count = 0; count < EARLY; count += 1) await submit();
    nonces[users[7]] += 1;
    await submit();
    for (const one of members) await checkPool(one, at, users[7], { pending: early.slice(0, EARLY), queued: early.slice(EARLY) });
    say('the pools have what was sent');

    // DappBase, a token, its registration.
    const base = (await works(send(owner, 3, code('DappBase', ['LIFE', true]), SUPPLY))).contractAddress;
    const coin = (await works(send(owner, 3, code('Token', ['Life', 'LIF', 0, 1_000_000])))).contractAddress;
    const on = (dapp, data) => dapp + data.slice(2);
    await works(send(owner, 1, on(base, dappBase.encodeFunctionData('registerDapp', [coin, owner, '[]']))));
    assert.deepEqual(await a.call('getDappAddrList', at), [base, coin]);
    for (const [, hash] of early.slice(0, EARLY)) await works(hash);
    nonces[users[7]] = EARLY;
    await works(send(users[7], 2, users[5]));
    await works(early[EARLY][1]);
    say('DappBase and a token');

    // Transactions of the Dapp, and a deposit meanwhile.
    const senders = users.slice(0, SENDERS);
    for (const sender of senders) await send(owner, 1, on(coin, token.encodeFunctionData('transfer', [sender, EACH + LATER])));
    const depositor = users[4];
    const deposit = rig.transact({ from: depositor, to: at, value: 2n * COIN, data: chain.data('buyMintToken', []), gas: 400_000 });
    await works(send(owner, 1, on(coin, token.encodeFunctionData('transfer', [users[5], 1]))));
    /** Each sender sends a token so many times. Returns the number of transactions. */
    const transferMany = async (each, server) => {
        const hashes = [];
        for (let round = 0; round < each; round += 1) {
            for (const sender of senders) hashes.push(await send(sender, 1, on(coin, token.encodeFunctionData('transfer', [users[5], 1]))));
        }
        for (const hash of hashes) {
            const { failed } = await waitFor(`a receipt of ${hash}`, () => server.call('getReceiptByHash', at, hash));
            assert.equal(failed, false);
        }
        return hashes.length;
    };
    const began = Date.now();
    const count = await transferMany(EACH, a);
    const took = (Date.now() - began) / 1000;
    const balanceOf = async (server, account) => {
        const data = token.encodeFunctionData('balanceOf', [account]);
        return token.decodeFunctionResult('balanceOf', await server.call('directCall', { to: at, dappAddr: coin, data }))[0];
    };
    assert.equal(await balanceOf(a, users[5]), BigInt(1 + SENDERS * EACH));
    say(`${count} transactions in ${took} s`);
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
            const { transactions } = await nodes[0].call('mc_getBlockByNumber', `0x${scanned.toString(16)}`, true);
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
    const first = await flush(a, NO_HASH);
    assert.equal(first.start, 1n);
    assert.ok(first.distributionAmount.every((amount) => amount > 0n), 'all members have made blocks');
    // Without redemptions the payee of the VNODE gets its reward before the rewards are lowered.
    assert.deepEqual(first.redeemAddr, []);
    assert.ok(nodes.some(({ via }) => via === first.via), first.via);
    const [, , viaReward] = await rewardsOf(first.hash);
    for (const { via } of nodes) assert.equal(await rig.balance(via), via === first.via ? viaReward : 0n, 'the reward of the VNODE');
    say(`first flush: blocks ${first.start} to ${first.end}`);
    const answers = new Answers({ chain, base, contracts });
    const holders = [owner, ...users, ...[...members, backup, monitor].map(({ id }) => id)];
    for (const one of [...members, monitor]) await answers.check(one, holders);
    say('the answers are those of the contracts');

    if (other) {
        // The second VNODE is killed. The SCSs behind it hear of nothing, and the others go on.
        await other.kill();
        const sent = transaction(owner, 1, on(coin, token.encodeFunctionData('transfer', [users[5], 1])));
        const hash = await nodes[0].call('mc_sendTransaction', { ...sent, via: nodes[0].via });
        await works(hash);
        await rig.block((await rig.head()) + 3);
        assert.equal(await b.call('getReceiptByHash', at, hash), null, 'an SCS behind a VNODE that is away');
        await other.start();
        await peered(nodes);
        for (const one of [...members, monitor]) {
            const found = await waitLong(`the transaction at ${one.name}`, () => one.call('getReceiptByHash', at, hash));
            assert.equal(found.failed, false);
        }
        say('the second VNODE is back');
    }

    // A withdrawal, a backup, and one SCS that is killed: the last in turn.
    const { nodeList } = await vnodeInfo(chain);
    const victim = members.find(({ id }) => id === nodeList[2]);
    await victim.kill();
    const reader = members.find((one) => one !== victim);
    // The very next flush is looked at. It may come before the withdrawal is in a flush.
    const nextFlush = flush(reader, first.hash);
    nextFlush.catch(() => {});
    const moved = 500n * COIN;
    const paidBefore = await rig.balance(depositor);
    const redeemed = await send(depositor, 1, on(base, dappBase.encodeFunctionData('redeemFromMicroChain')), moved);
    await waitFor('the withdrawal', () => reader.call('getReceiptByHash', at, redeemed));
    const open = await reader.call('getExchangeInfo', at, 0, 10, 0, 10);
    assert.deepEqual([open.WithdrawingRecordCount, BigInt(open.WithdrawingRecords[1].WithdrawingAmt)], [1, moved]);
    await transferMany(LATER, reader);
    await pool.send('register', [backup.id], owner, { value: 10n * COIN });
    await rig.block((await rig.head()) + 6);
    await chain.send('registerAdd', [4], owner);
    await waitFor('a backup', async () => ((await vnodeInfo(chain)).nodesToJoin.includes(backup.id) ? true : null));
    say('a backup follows');
    // The backup joins with this flush. With it there are four members, and two votes are too few for payments (docs/microchain-design.md,
    // 4). They come with the next flush.
    const second = await nextFlush;
    assert.equal(second.start, first.end + 1n);
    assert.equal(await waitLong('the payment', async () => ((await rig.balance(depositor)) > paidBefore ? await rig.balance(depositor) : null)), paidBefore + moved / RATE);
    await scan();
    // The payment comes with the second flush, if the backup was not up to date in time, or with a later one. On a busy machine more
    // flushes have come meanwhile, and one may be open.
    const ended = actions.map(({ hash }) => hash);
    const begun = Object.keys(proposed).filter((hash) => proposed[hash] < actions.at(-1).block);
    assert.deepEqual(begun, ended, 'no flush was begun in vain');
    assert.ok(ended.length >= 2);
    // The reader hears of the payment after the base chain has it.
    await waitFor('the payment in the lists', async () => {
        const exchange = await reader.call('getExchangeByAddress', at, depositor, 0, 10, 0, 10, 0, 10, 0, 10);
        const counts = [
            exchange.DepositRecordCount, exchange.DepositingRecordCount, exchange.WithdrawRecordCount, exchange.WithdrawingRecordCount,
        ];
        return String(counts) === '1,0,1,0' ? counts : null;
    });
    say(`second flush: blocks ${second.start} to ${second.end}`);
    const joined = await waitLong('the backup as a member', async () => {
        const present = (await vnodeInfo(chain)).nodeList.slice(0, Number(await chain.read('nodeCount')));
        return present.includes(backup.id) ? present : null;
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
    // The transfers of tokens, the first one, and the one while a VNODE was away.
    const transfers = BigInt(1 + SENDERS * (EACH + LATER) + (other ? 1 : 0));
    for (const one of all) {
        assert.equal(await balanceOf(one, users[5]), transfers, one.name);
        await answers.check(one, holders);
    }
    return { transactions: count, took, joined: joined.includes(backup.id), flushes: [Number(first.end), Number(second.end)], height };
}

run(async () => {
    try {
        return await life();
    } catch (error) {
        showLogs();
        throw error;
    }
});
