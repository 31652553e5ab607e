// The two pools, and DappBase with a Dapp, on the base chain.

import { assert, say } from './common.mjs';
import { COIN, ZERO, somebody } from './microchain-rig.mjs';

const BOND = 10n;
const PENDING_BLOCKS = 5;

/** Registers `scs` and checks the rules of the pool. Returns the block from which on they may be chosen. */
export async function register(pool, scs, owner) {
    await pool.refused('register', [scs[0]], owner, { value: BOND * COIN - 1n });
    const receipts = await Promise.all(scs.map((id) => pool.send('register', [id], owner, { value: BOND * COIN })));
    assert.equal(await pool.read('scsCount'), BigInt(scs.length));
    for (const [index, id] of scs.entries()) {
        const since = BigInt(receipts[index].blockNumber + PENDING_BLOCKS);
        assert.deepEqual(await pool.read('scsList', id), [id, BOND * COIN, 1n, since, 2n ** 256n - 1n]);
    }
    assert.equal(await pool.read('isPerforming', scs.at(-1)), false, 'not yet');
    assert.equal(await pool.read('getSelectionTarget', 1000, 3), 255n, 'with few SCSs all are selectable');
    assert.deepEqual(
        [await pool.read('getSelectionTargetByCount', 0), await pool.read('getSelectionTargetByCount', 2)],
        [0n, BigInt(Math.floor((Math.floor(2 * 256 / scs.length) + 1) / 2))],
    );
    return Math.max(...receipts.map(({ blockNumber }) => blockNumber)) + PENDING_BLOCKS + 1;
}

/** An SCS that no MicroChain holds asks for its bond and waits; one that is held cannot. */
export async function leave(pool, free, held) {
    await pool.refused('withdrawRequest', [], held);
    const count = await pool.read('scsCount');
    const receipt = await pool.send('withdrawRequest', [], free);
    assert.deepEqual(pool.events(receipt), [['UnRegistered', free]]);
    assert.equal(await pool.read('scsCount'), count - 1n);
    await pool.send('withdraw', [], free);
    const [, bond, state] = await pool.read('scsList', free);
    assert.deepEqual([bond, state], [BOND * COIN, 2n], 'the bond stays for 8640 blocks');
    await pool.refused('register', [free], free, { value: BOND * COIN });
}

/** The pool of VNODEs: what an SCS asks it. */
export async function vnodes(pool, owner, via) {
    const vnode = somebody('a VNODE');
    await pool.refused('register', [vnode, via, 'host:50062', ''], owner, { value: COIN - 1n });
    const receipt = await pool.send('register', [vnode, via, 'host:50062', 'http://host:8545'], owner, { value: COIN });
    await pool.refused('register', [vnode, via, 'host:50062', ''], owner, { value: COIN });
    const since = BigInt(receipt.blockNumber + 50);
    assert.deepEqual(
        await pool.read('vnodeStore', 1),
        [vnode, COIN, 1n, since, 2n ** 256n - 1n, 'http://host:8545', via, 'host:50062'],
    );
    assert.deepEqual([await pool.read('vnodeCount'), await pool.read('vnodeList', vnode)], [2n, 1n]);
    assert.equal(await pool.read('pickRandomVnode', 7), '', 'not yet');
    await pool.rig.block(Number(since) + 1);
    assert.equal(await pool.read('isPerforming', vnode), true);
    assert.equal(await pool.read('pickRandomVnode', 7), 'host:50062');
    assert.equal(await pool.read('pickRandomVnode', 8), 'host:50062', 'index 0 is nobody');
    await pool.send('reportOutage', [vnode], owner);
    await pool.send('reportOutage', [vnode], owner);
    await pool.send('sweepOutage', [2, 1, 5], owner);
    assert.equal(await pool.read('vnodeCount'), 2n, 'one sender counts once');
    await pool.send('sweepOutage', [1, 1, 5], owner);
    assert.deepEqual([await pool.read('vnodeCount'), await pool.read('pickRandomVnode', 7)], [1n, '']);
    say('the pool of VNODEs: registered, picked, reported, swept');
}

/** DappBase as a stand-in on the base chain: Dapps, the node list, deposits by votes, withdrawals. */
export async function dappBase({ rig, owner, scs, users, outsider }) {
    const supply = 100n * COIN;
    const base = await rig.create('DappBase', owner, ['Stand-in', false], { gas: 4_000_000, value: supply });
    assert.deepEqual([await base.read('coinName'), await base.read('allDeploySwitch')], ['Stand-in', false]);
    // The public scripts create it without arguments, too.
    const bare = await rig.create('DappBase', owner, null, { gas: 4_000_000 });
    assert.deepEqual([await bare.read('coinName'), await bare.read('allDeploySwitch')], ['', false]);

    const counter = await rig.create('Counter', users[0], [], { gas: 400_000 });
    const other = somebody('a Dapp');
    await base.refused('registerDapp', [counter.address, users[0], '[]'], users[0]);
    await base.send('registerDapp', [counter.address, users[0], '[{"name":"count"}]'], owner);
    await base.refused('registerDapp', [counter.address, users[0], '[]'], owner);
    await base.send('registerDapp', [other, owner, '[]'], owner);
    const list = [[counter.address, users[0], '[{"name":"count"}]', 1n], [other, owner, '[]', 1n]];
    assert.deepEqual(await base.read('getDappList'), list);
    assert.deepEqual(
        [await base.read('getDappState', counter.address), await base.read('getDappABI', counter.address)],
        [1n, '[{"name":"count"}]'],
    );
    await base.send('updateDapp', [counter.address, users[1], '', 0], owner);
    assert.deepEqual(await base.read('dappList', 0), [counter.address, users[1], '', 0n]);
    await base.send('removeDapp', [counter.address], owner);
    assert.deepEqual([await base.read('getDappList'), await base.read('dappRecord', other)], [[list[1]], 1n]);
    assert.deepEqual([await base.read('getDappState', counter.address), await base.read('getDappABI', counter.address)], [0n, '']);
    await counter.send('count', [3], users[1]);
    await counter.refused('count', [0], users[1]);
    assert.deepEqual([await counter.read('total'), await counter.read('countOf', users[1])], [3n, 3n]);

    // The node list: by the owner at once, by others with more than half of the new list.
    await base.send('updateNodeList', [scs.slice(0, 3)], owner);
    assert.deepEqual(await base.read('getCurNodeList'), scs.slice(0, 3));
    await base.send('updateNodeList', [scs], scs[0]);
    await base.send('updateNodeList', [scs], scs[0]);
    await base.send('updateNodeList', [scs], scs[1]);
    assert.deepEqual(await base.read('getCurNodeList'), scs.slice(0, 3), 'two of four are no majority');
    await base.send('updateNodeList', [scs], scs[2]);
    assert.deepEqual(await base.read('getCurNodeList'), scs);
    await base.send('updateNodeList', [scs.slice(0, 3)], owner);
    // Votes are never forgotten: the same senders cannot bring a list back, except in another order.
    await Promise.all(scs.map((id) => base.send('updateNodeList', [scs], id)));
    assert.deepEqual(await base.read('getCurNodeList'), scs, 'the fourth is a new voter');
    await base.send('updateNodeList', [scs.slice(0, 3)], owner);
    await Promise.all(scs.map((id) => base.send('updateNodeList', [scs], id)));
    assert.deepEqual(await base.read('getCurNodeList'), scs.slice(0, 3), 'nobody is a new voter');
    const turned = [...scs.slice(1), scs[0]];
    await Promise.all(scs.slice(0, 3).map((id) => base.send('updateNodeList', [turned], id)));
    assert.deepEqual(await base.read('getCurNodeList'), turned);
    await base.send('updateNodeList', [scs.slice(0, 3)], owner);

    // Deposits: three members, two votes; a contract is recorded and not paid.
    const receiver = somebody('a depositor');
    const credit = [0, [receiver, counter.address], [(5n * COIN).toString(), COIN.toString()], [100, 200]];
    await base.refused('postFlush', credit, outsider);
    await base.refused('postFlush', [1, ...credit.slice(1)], scs[0]);
    await base.send('postFlush', credit, scs[0]);
    await base.send('postFlush', credit, scs[0]);
    assert.deepEqual([await base.read('enterPos'), await rig.balance(receiver)], [0n, 0n], 'one vote, given twice');
    await base.send('postFlush', credit, scs[1]);
    assert.deepEqual([await base.read('enterPos'), await rig.balance(receiver)], [2n, 5n * COIN]);
    await base.refused('postFlush', credit, scs[2]);
    const [credited, when] = await base.read('getEnterRecords', receiver);
    assert.deepEqual([credited, when.length], [[5n * COIN], 1]);
    assert.deepEqual((await base.read('getEnterRecords', counter.address))[0], [COIN]);
    assert.equal(await rig.balance(base.address), supply - 5n * COIN);

    // Anyone can make a list of one: an SCS must not let such a call into a block.
    assert.equal(await bare.read('getCurNodeList').then((list) => list.length), 0);
    await bare.send('updateNodeList', [[outsider]], outsider);
    assert.deepEqual(await bare.read('getCurNodeList'), [outsider]);

    // Withdrawals.
    await base.send('redeemFromMicroChain', [], users[0], { value: COIN });
    await base.send('redeemFromMicroChain', [], users[1], { value: 2n * COIN });
    const [addresses, amounts, times] = await base.read('getRedeemMapping', ZERO, 0);
    assert.deepEqual([addresses, amounts, times.length], [[users[0], users[1]], [COIN, 2n * COIN], 2]);
    assert.deepEqual((await base.read('getRedeemMapping', users[1], 1)).slice(0, 2), [[ZERO], [2n * COIN]]);
    assert.deepEqual((await base.read('getRedeemMapping', ZERO, 2))[0], []);
    // The public contract has no pages.
    if (base.abi.some(({ name }) => name === 'getRedeemPage')) {
        const page = async (pos, max) => (await base.read('getRedeemPage', pos, max)).map((list) => list.length ?? list);
        assert.deepEqual(await base.read('getRedeemPage', 1, 9), [[users[1]], [2n * COIN], [times[1]], 2n]);
        assert.deepEqual([await page(0, 1), await page(0, 0), await page(2, 9)], [[1, 1, 1, 2n], [0, 0, 0, 2n], [0, 0, 0, 2n]]);
    }
    assert.equal(await rig.balance(base.address), supply - 2n * COIN, 'the vault has what is not outside');
    say('DappBase: Dapps, the node list, deposits by votes, withdrawals');
}
