// MicroChains from their creation to their end on the base chain. Every scene has a chain base of its own, and all
// run at once, because most of their time is waiting for turns.

import { keccak256, toUtf8Bytes } from 'ethers';
import { assert, say } from './common.mjs';
import { checkMoney, flush, TURN } from './microchain-flush.mjs';
import { leave } from './microchain-pools.mjs';
import { COIN, GAS_PRICE, NO_HASH, SLOTS, ZERO, proposal, somebody, vnodeInfo } from './microchain-rig.mjs';

export const ROUND = 40;
const MEMBERS_MIN = 3;
const MEMBERS_MAX = 11;
const SUPPLY = 1000;
const PRICE = 10n;
const MONITOR_FEE = 10n ** 12n;
const HALF_A_COIN = COIN / 2n;
const LAST_PLACE = 10n ** 9n;
const role = { none: 0n, consensus: 1n, monitor: 2n, backup: 3n, selectable: 4n };
const hashOf = (label) => keccak256(toUtf8Bytes(label));

/** The redemptions of a payout in our contracts: as many as three quarters of a block pay for, at most `allowed`. */
async function payoutMax(rig, allowed) {
    const { gasLimit } = await rig.request('mc_getBlockByNumber', ['latest', false]);
    const fitting = Math.floor((Math.floor(Number(gasLimit) / 4) * 3 - 200_000) / 135_000);
    return BigInt(Math.min(allowed, fitting));
}

/**
 * Lets `scs` join, checks who may, and starts the MicroChain. Each member has a beneficiary of its own. Returns the
 * members in their order.
 */
export async function join(stage, chain, scs, label) {
    const { owner, outsider } = stage;
    const agreement = (id) => chain.rig.agreement(id, chain.address);
    const early = agreement(scs[0]);
    assert.equal(await chain.trial('registerAsSCS', [ZERO, ...early], scs[0]), false, 'registration is not open');
    for (const id of [...scs, outsider]) {
        assert.equal(await chain.read('getSCSRole', id), id === outsider ? role.none : role.selectable, id);
    }
    await Promise.all([
        chain.refused('registerOpen', [], outsider),
        chain.send('registerOpen', [], owner, { notices: ['registerOpen'] }),
    ]);

    assert.equal(await chain.slot(SLOTS.registration), 1n);
    assert.equal(await chain.trial('registerAsSCS', [ZERO, ...agreement(scs[1])], scs[0]), false, "another's signature");
    const register = (id) => chain.send('registerAsSCS', [somebody(`${label} ${id}`), ...agreement(id)], id, { notices: [] });
    await Promise.all([
        chain.refused('registerAsSCS', [ZERO, ...agreement(outsider)], outsider),
        ...scs.map(register),
    ]);
    const members = (await vnodeInfo(chain)).nodeList;
    assert.deepEqual(new Set(members), new Set(scs));
    for (const id of members) {
        assert.equal(await chain.read('scsBeneficiary', id), somebody(`${label} ${id}`));
        assert.equal(await chain.read('getSCSRole', id), role.consensus);
    }
    assert.equal(await chain.read('nodeCount'), BigInt(scs.length));
    const [receipt] = await Promise.all([
        chain.send('registerClose', [], owner, { notices: ['registerClose'] }),
        chain.refused('registerAsSCS', [ZERO, ...early], scs[0]),
    ]);
    // These slots tell an SCS that was away whether the MicroChain has started.
    const slots = [await chain.slot(SLOTS.lastFlush), await chain.slot(SLOTS.registration), await chain.slot(SLOTS.turn)];
    assert.deepEqual(slots, [BigInt(receipt.blockNumber), 0n, 0n]);
    for (const index of members.keys()) {
        const est = BigInt(receipt.blockNumber + ROUND + TURN * index);
        assert.equal(await chain.read('getEstFlushBlock', index), est, 'the turns are one after the other');
    }
    return members;
}

/** ASM: deposits, withdrawals, a monitor, a backup that becomes a member, one that leaves, and the end. */
export async function coins(stage) {
    const { rig, owner, scs, users, via, exact } = stage;
    const args = [stage.pool.address, stage.vnodes.address, MEMBERS_MIN, MEMBERS_MAX, 1000, ROUND, SUPPLY, PRICE.toString()];
    const chain = await rig.create('ChainBase', owner, args);
    await Promise.all([
        chain.refused('addFund', [], users[0], { value: COIN }),
        chain.send('addFund', [], owner, { value: 10n * COIN }),
        stage.ready,
    ]);
    const members = await join(stage, chain, scs.slice(0, 3), 'coins');
    assert.deepEqual(await stage.pool.read('approvalAddresses', members[0]).then((list) => list.includes(chain.address)), true);

    const info = await vnodeInfo(chain);
    assert.deepEqual(info, {
        protocol: stage.pool.address, members: [3n, 11n], rewards: [5n * 10n ** 14n, 10n ** 11n, 10n ** 16n],
        proposalExpiration: 24n, vnodePool: stage.vnodes.address, penaltyBond: COIN, status: 0n, owner,
        balance: BigInt(SUPPLY) * COIN, redeems: [0n, 160n, exact ? await payoutMax(rig, 130) : 130n, 500n], nodeList: members, nodesToJoin: [],
    });
    const left = Number(await chain.read('getFlushInfo'));
    assert.ok(left > 0 && left <= ROUND + TURN, `${left} blocks are left in the first turn`);
    assert.equal(await chain.read('getFlushStatus'), true);

    // Deposits; the last one asks for more than is left and gets the rest back.
    await chain.send('buyMintToken', [], users[0], { value: 3n * COIN, notices: [] });
    await chain.send('buyMintToken', [], users[1], { value: HALF_A_COIN + LAST_PLACE });
    const before = await rig.balance(chain.address);
    await chain.send('buyMintToken', [], users[1], { value: 100n * COIN });
    const bought = 100n * COIN - 3n * COIN - HALF_A_COIN - LAST_PLACE;
    assert.equal((await rig.balance(chain.address)) - before, bought, 'the excess goes back');
    const amounts = [3n * COIN, HALF_A_COIN + LAST_PLACE, bought].map((coins) => coins * PRICE);
    const [addresses, entering, times, params] = await chain.read('getEnteringAmount', ZERO, 0);
    assert.deepEqual([addresses, entering, params], [[users[0], users[1], users[1]], amounts, [250n, 6n]]);
    assert.ok(times.every((time) => time > 0n));
    assert.deepEqual((await chain.read('getEnteringAmount', users[1], 1))[1], amounts.slice(1));
    assert.deepEqual((await chain.read('getEnteringAmount', users[1], 0))[0], [ZERO, ZERO]);
    assert.deepEqual(await chain.read('getholdingPool'), addresses);
    assert.equal(await chain.read('totalExchange'), BigInt(SUPPLY) * COIN, 'all is sold');
    if (exact) await chain.refused('buyMintToken', [], users[0], { value: COIN });
    await checkMoney(chain, stage);

    // A monitor, for whom somebody else pays, and a backup.
    const watcher = somebody('a monitor');
    await chain.refused('registerAsMonitor', [watcher, 'host:1'], users[0], { value: MONITOR_FEE - 1n });
    await chain.send('registerAsMonitor', [watcher, 'host:1'], users[0], { value: MONITOR_FEE, notices: ['monitor'] });
    await chain.refused('registerAsMonitor', [watcher, 'host:2'], users[0], { value: MONITOR_FEE });
    assert.equal(await chain.read('getSCSRole', watcher), role.monitor);
    assert.deepEqual(await chain.read('getMonitorInfo'), [[watcher], ['host:1']]);
    const backup = scs[3];
    const agreement = rig.agreement(backup, chain.address);
    assert.equal(await chain.trial('registerAsBackup', [ZERO, ...agreement], backup), false, 'no backups yet');
    await chain.send('registerAdd', [20], owner, { notices: ['registerAdd'] });
    await chain.send('registerAsBackup', [somebody('backup'), ...agreement], backup, { notices: ['backup'] });
    assert.equal(await chain.read('getSCSRole', backup), role.backup);
    assert.deepEqual((await vnodeInfo(chain)).nodesToJoin, [backup]);
    await chain.send('BackupUpToDate', [0], backup, { notices: [] });
    await chain.refused('BackupUpToDate', [0], members[0]);
    await checkMoney(chain, stage);

    // A member leaves at the next flush; nobody leaves at once in a good round.
    await chain.send('requestRelease', [1, 1], members[1], { notices: [] });
    assert.equal(await chain.trial('requestRelease', [1, 1], members[1]), false, 'once is enough');
    assert.equal(await chain.trial('requestRelease', [2, 0], members[0]), false, 'it is not its own beneficiary');
    assert.equal(await chain.trial('requestReleaseImmediate', [1, 0], members[0]), false, 'the round is not over');

    // Proposals that are refused: too early, by the wrong sender, too dear, with wrong lists.
    const proposed = [0, [NO_HASH, hashOf('a')], [1, 10], ['0', '0', '0'], [], via, 0];
    const but = (place, value) => proposed.map((given, index) => (index === place ? value : given));
    const refusal = (args, from, options) => assert.rejects(chain.trial('createProposal', args, from, options), /revert/);
    await refusal(proposed, members[0]);
    await rig.block(Number(await chain.read('getEstFlushBlock', 0)));
    assert.equal(await chain.trial('createProposal', proposed, members[0]), true, 'now it is its turn');
    await refusal(but(0, 1), members[1]);
    await refusal(proposed, members[2]);
    await refusal(proposed, members[0], { gasPrice: GAS_PRICE + 1 });
    await refusal(but(3, ['0', '0']), members[0]);
    await refusal(but(4, [2]), members[0]);
    assert.equal(await chain.trial('createProposal', but(1, [hashOf('b'), hashOf('a')]), members[0]), false, 'not on the last flush');

    const redemptions = [[users[0], 7n * COIN], [somebody('a new owner'), 2n * COIN * PRICE]];
    const purse = await rig.balance(redemptions[1][0]);
    await flush(chain, {
        hash: hashOf('first'), bound: exact, blocks: [1, 30], rewards: [[10, 4], [10, 0], [10, 12]], redemptions, via,
        proposer: 0, voters: [2, 1], exact,
    });
    assert.equal((await rig.balance(redemptions[1][0])) - purse, 2n * COIN, 'the redemption is paid');
    assert.equal(await chain.read('totalExchange'), BigInt(SUPPLY) * COIN - 27n * COIN);
    const [redeemed, when] = await chain.read('getRedeemRecords', users[0]);
    assert.deepEqual([redeemed, when.length], [[7n * COIN], 1]);
    assert.deepEqual((await vnodeInfo(chain)).nodeList, [members[0], members[2], backup], 'one left, one joined');
    assert.equal(await chain.read('getSCSRole', members[1]), role.selectable);
    assert.equal(await stage.pool.read('approvalAddresses', members[1]).then((list) => list.includes(chain.address)), false);
    assert.deepEqual([await chain.read('joinCntNow'), await chain.read('joinCntMax')], [0n, 0n]);

    // The end: the next flush begins at once, and the owner gets what belongs to nobody else.
    await chain.refused('close', [], members[0]);
    await chain.send('close', [], owner, { notices: ['updateLastFlush'] });
    await chain.refused('registerOpen', [], owner);
    await flush(chain, {
        hash: hashOf('second'), bound: exact, blocks: [31, 40], rewards: [[4, 0], [3, 0], [3, 150]], via, proposer: 1,
        voters: [0], exact,
    });
    await ended(stage, chain, [...members, backup]);
    assert.equal(await rig.balance(chain.address), (await chain.read('totalExchange')) / PRICE + MONITOR_FEE, 'users are owed this');
    await chain.send('removeMonitorInfo', [watcher], users[1], { notices: [] });
    assert.equal(await rig.balance(watcher), MONITOR_FEE);
    await checkMoney(chain, { exact: true });
    say(`a MicroChain of coins: 2 flushes, ${redemptions.length} redemptions, closed`);
}

/** A closed MicroChain: nobody is a member, zero addresses stay, all pledges are given back. */
async function ended(stage, chain, scs) {
    const info = await vnodeInfo(chain);
    assert.deepEqual([info.status, await chain.read('nodeCount'), await chain.read('totalOperation')], [2n, 0n, 0n]);
    assert.ok(info.nodeList.every((address) => address === ZERO), 'zero addresses stay in the list');
    for (const id of scs) {
        const pledged = await stage.pool.read('approvalAddresses', id);
        assert.equal(pledged.includes(chain.address), false, `${id} is free`);
    }
}

/** AST: deposits and withdrawals of an ERC-20 token with 6 decimals. */
export async function tokens(stage) {
    const { rig, owner, scs, users, via } = stage;
    const token = await rig.create('Token', owner, ['Small change', 'SMALL', 6, '5000000000'], { gas: 2_000_000 });
    const rate = 2n;
    const unit = rate * 10n ** 12n;
    const setup = [stage.pool.address, stage.vnodes.address, token.address, Number(rate), 1, MEMBERS_MAX, 1000, ROUND];
    const chain = await rig.create('TokenChainBase', owner, setup);
    assert.equal((await vnodeInfo(chain)).balance, 5_000_000_000n * unit);
    assert.deepEqual([await chain.read('ERCAddr'), await chain.read('ERCRate'), await chain.read('ERCDecimals')], [token.address, rate, 12n]);
    await Promise.all([chain.send('addFund', [], owner, { value: 5n * COIN }), stage.ready]);
    const members = await join(stage, chain, scs.slice(0, 3), 'tokens');

    assert.equal(await chain.trial('buyMintToken', [1], owner), false, 'nothing is approved');
    await token.send('transfer', [users[0], 1_000_000], owner);
    await token.send('approve', [chain.address, 900_000], users[0]);
    await chain.send('buyMintToken', [600_000], users[0], { notices: [] });
    assert.equal(await chain.trial('buyMintToken', [300_001], users[0]), false, 'more than is approved');
    const [addresses, entering] = await chain.read('getEnteringAmount', ZERO, 0);
    assert.deepEqual([addresses, entering], [[users[0]], [600_000n * unit]]);
    assert.equal(await token.read('balanceOf', chain.address), 600_000n);
    await chain.refused('buyMintToken', [1], users[0], { value: 1n });
    if (stage.exact) await chain.refused('buyMintToken', [0], users[0]);

    const redemptions = [[users[1], 100_000n * unit], [users[0], 250_000n * unit]];
    await flush(chain, {
        hash: hashOf('tokens'), blocks: [1, 9], rewards: [[3, 400], [3, 0], [3, 0]], redemptions, via, proposer: 0,
        voters: [1, 2], exact: stage.exact,
    });
    const held = await Promise.all([users[1], users[0], chain.address].map((address) => token.read('balanceOf', address)));
    assert.deepEqual(held, [100_000n, 650_000n, 250_000n], 'tokens add up');
    assert.deepEqual((await chain.read('getRedeemRecords', users[0]))[0], [250_000n * unit]);

    await chain.send('close', [], owner, { notices: ['updateLastFlush'] });
    await flush(chain, {
        hash: hashOf('tokens end'), blocks: [10, 12], rewards: [[1, 0], [1, 0], [1, 0]], via, proposer: 1, voters: [2, 0],
        exact: stage.exact,
    });
    await ended(stage, chain, members);
    assert.equal(await rig.balance(chain.address), 0n, 'the owner has all coins');
    say('a MicroChain of tokens: 2 flushes, 2 redemptions, closed');
}

/** Four members: a proposal that nobody votes for expires; the next proposer reports a bad member, who loses its bond. */
export async function faults(stage) {
    const { rig, owner, scs, via } = stage;
    const args = [stage.pool.address, stage.vnodes.address, MEMBERS_MIN, MEMBERS_MAX, 1000, ROUND, SUPPLY, PRICE.toString()];
    const chain = await rig.create('ChainBase', owner, args);
    await Promise.all([chain.send('addFund', [], owner, { value: 5n * COIN }), stage.ready]);
    const members = await join(stage, chain, scs, 'faults');
    // A close lets the first turn begin at once.
    await chain.send('close', [], owner, { notices: ['updateLastFlush'] });

    const lonely = hashOf('nobody votes');
    const amounts = ['0', '0', '0', '0'];
    await chain.send('createProposal', [0, [NO_HASH, lonely], [1, 5], amounts, [], via, 0], members[0], { notices: ['createProposal'] });
    assert.equal(await chain.trial('requestProposalAction', [1, lonely], members[1]), false, 'a quarter decides nothing');
    await chain.refused('requestEnterAndRedeemAction', [lonely], members[1]);
    const est = Number((await proposal(chain, 1)).startingBlock);
    await rig.block(est + TURN + 1);
    assert.equal(await chain.read('checkProposalStatus', lonely), 2n, 'it is too late');
    assert.equal(await chain.trial('voteOnProposal', [1, lonely, true], members[1]), false, 'it is too late');
    await chain.send('requestProposalAction', [1, lonely], members[1], { notices: [] });
    assert.deepEqual([(await proposal(chain, 1)).flag, await chain.read('nodePerformance', members[0])], [5n, 4n]);
    const again = [1, [NO_HASH, lonely], [1, 5], amounts, [], via, 0];
    assert.equal(await chain.trial('createProposal', again, members[1]), false, 'a hash cannot be proposed twice');

    const [bond] = [(await stage.pool.read('scsList', members[2]))[1]];
    const refunded = await chain.read('currentRefundGas', members[0]);
    assert.ok(refunded > 0n, 'the gas of the expired proposal will be paid with the next');
    await flush(chain, {
        hash: hashOf('with a bad member'), blocks: [1, 6], rewards: [[2, 0], [2, 0], [0, 0], [2, 0]], via, proposer: 1,
        voters: [0, 3], badActors: [2], exact: stage.exact,
    });
    assert.equal((await stage.pool.read('scsList', members[2]))[1], bond - COIN, 'the bad member has lost its bond');
    assert.deepEqual([await chain.read('nodePerformance', members[0]), await chain.read('nodePerformance', members[2])], [5n, 0n]);
    await ended(stage, chain, members);
    say('a MicroChain with faults: an expired proposal, a bad member, closed');
}

/** A withdrawal whose receiver takes no coins: the flush cannot be finished, and nothing is paid twice. */
export async function jammed(stage) {
    const { rig, owner, scs, users, via } = stage;
    const args = [stage.pool.address, stage.vnodes.address, 1, MEMBERS_MAX, 1000, ROUND, SUPPLY, PRICE.toString()];
    const chain = await rig.create('ChainBase', owner, args);
    await Promise.all([chain.send('addFund', [], owner, { value: COIN }), stage.ready]);
    await chain.send('buyMintToken', [], users[0], { value: COIN });
    const members = await join(stage, chain, scs.slice(0, 2), 'jammed');
    await chain.send('close', [], owner, { notices: ['updateLastFlush'] });
    const hash = hashOf('jammed');
    const amounts = ['0', '0'];
    await chain.send('createProposal', [0, [NO_HASH, hash], [1, 2], amounts, [], via, 2], members[0]);
    const receivers = [somebody('before the contract'), stage.pool.address];
    await Promise.all([
        chain.send('UploadRedeemData', [receivers, [COIN.toString(), COIN.toString()]], members[0], { notices: ['createProposal'] }),
        chain.send('voteOnProposal', [1, hash, true], members[1]),
    ]);
    await chain.send('requestProposalAction', [0, hash], members[0], { notices: ['approve'] });
    await chain.refused('requestEnterAndRedeemAction', [hash], members[0]);
    const stuck = await proposal(chain, 1);
    assert.deepEqual([stuck.flag, stuck.preRedeemNum, (await vnodeInfo(chain)).redeems[0]], [1n, 2n, 0n]);
    assert.equal(await rig.balance(receivers[0]), 0n, 'all or none are paid');
    say('a MicroChain with a withdrawal that cannot be paid: the flush does not end');
}

/** Too few join: all are released, and zero addresses stay in the list. */
export async function tooFew(stage) {
    const { rig, owner, scs } = stage;
    const args = [stage.pool.address, stage.vnodes.address, MEMBERS_MIN, MEMBERS_MAX, 1000, ROUND, SUPPLY, PRICE.toString()];
    const chain = await rig.create('ChainBase', owner, args);
    await stage.ready;
    await chain.send('registerOpen', [], owner, { notices: ['registerOpen'] });
    await chain.send('registerAsSCS', [ZERO, ...rig.agreement(scs[0], chain.address)], scs[0], { notices: [] });
    assert.equal(await chain.read('scsBeneficiary', scs[0]), scs[0], 'without a beneficiary it is its own');
    await leave(stage.pool, stage.free, scs[0]);
    await chain.refused('registerClose', [], scs[0]);
    assert.equal(await chain.trial('registerClose', [], owner), false);
    await chain.send('registerClose', [], owner, { notices: [] });
    assert.deepEqual([await chain.read('nodeCount'), (await vnodeInfo(chain)).nodeList], [0n, [ZERO]]);
    assert.equal(await chain.read('getSCSRole', scs[0]), role.selectable);
    // Settings of the owner, and what the owner may take back.
    await chain.send('addFund', [], owner, { value: COIN });
    const receiver = somebody('a receiver');
    await chain.refused('withdraw', [receiver, 1], scs[0]);
    await chain.send('withdraw', [receiver, HALF_A_COIN.toString()], owner);
    assert.deepEqual([await rig.balance(receiver), await chain.read('totalOperation')], [HALF_A_COIN, HALF_A_COIN]);
    await chain.send('updatePerRechargeNum', [5], owner);
    await chain.send('updateRechargeCycle', [1], owner);
    await chain.send('updatePerUploadRedeemNum', [4], owner);
    await chain.send('updatePerRedeemNum', [3], owner);
    assert.deepEqual((await chain.read('getEnteringAmount', ZERO, 0))[3], [5n, 1n]);
    assert.deepEqual((await vnodeInfo(chain)).redeems, [0n, 4n, 3n, 500n]);
    await chain.send('reset', [], owner, { notices: ['reset'] });
    assert.equal(await chain.read('flushInRound'), 60n);
    await chain.refused('reset', [], scs[0]);
    // Nobody sends coins without a function, except the pool.
    const plain = await rig.transact({ from: owner, to: chain.address, value: 1n });
    assert.equal(plain.status, '0x0');
    say('a MicroChain with too few members: released');
}
