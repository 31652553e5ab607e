// Attacks on chain bases: by a stranger, by a member that proposes, and by waiting. Each of them must get nothing. With chain3 on a
// development node that makes a block for each transaction, and more when it is asked.
//
// The argument has the node, its accounts with keys, and the file of the compiled contracts.

import { readFileSync } from 'node:fs';
import { keccak256, toUtf8Bytes } from 'ethers';
import { argument, assert, run, say } from './common.mjs';
import { TURN, checkMoney } from './microchain-flush.mjs';
import { register } from './microchain-pools.mjs';
import { COIN, GAS_PRICE, Rig, ZERO, proposal, somebody } from './microchain-rig.mjs';
import { ROUND, join } from './microchain-scenes.mjs';

const SUPPLY = 1000;
const PRICE = 10n;
/// Blocks without a flush after which the pool frees the members of a new chain base.
const QUIET = 5 * ROUND;
/// The most redemptions of a flush, and the most gas that an upload books for each.
const REDEMPTIONS_MAX = 500;
const UPLOAD_GAS = 60_000n;
const hashOf = (label) => keccak256(toUtf8Bytes(label));

/** A chain base that has started with these members, in which a user has bought tokens for `deposit`. */
async function started(stage, scs, label, { fund = 5n * COIN, deposit = 50n * COIN, pause = 0 } = {}) {
    const { rig, owner, user, pool, vnodes } = stage;
    const args = [pool.address, vnodes.address, 1, 11, 1000, ROUND, SUPPLY, PRICE.toString()];
    const chain = await rig.create('ChainBase', owner, args);
    await chain.send('addFund', [], owner, { value: fund });
    await chain.send('buyMintToken', [], user, { value: deposit });
    await rig.block((await rig.head()) + pause);
    return { chain, members: await join(stage, chain, scs, label) };
}

/** The member at `place` proposes in its turn, and the others vote. Returns the hash. */
async function proposed(chain, members, place, label, { redemptions = [], badActors = [], voters }) {
    const hash = hashOf(label);
    const last = await chain.read('proposalHashApprovedLast');
    await chain.rig.block(Number(await chain.read('getEstFlushBlock', place)) - 1);
    // The proposer has made all blocks.
    const made = 5n * (await chain.read('blockReward'));
    const rewards = members.map((_, index) => (index === place ? made : 0n).toString());
    const args = [place, [last, hash], [1, 5], rewards, badActors, somebody('a via'), redemptions.length];
    await chain.send('createProposal', args, members[place]);
    if (redemptions.length > 0) {
        const lists = [redemptions.map(([to]) => to), redemptions.map(([, tokens]) => tokens.toString())];
        await chain.send('UploadRedeemData', lists, members[place]);
    }
    for (const voter of voters) await chain.send('voteOnProposal', [voter, hash, true], members[voter]);
    return hash;
}

/** A stranger pays out at a gas price that would take all that the chain base has. A member acts twice. */
async function dearPayouts(stage) {
    const { chain, members } = await started(stage, stage.scs, 'payouts');
    const redemptions = [[somebody('a receiver'), COIN]];
    const hash = await proposed(chain, members, 0, 'payouts', { redemptions, badActors: [1], voters: [2, 3] });
    const bond = async (id) => (await stage.pool.read('scsList', id))[1];
    const bonds = await Promise.all(members.map(bond));
    await chain.send('requestProposalAction', [0, hash], members[0], { notices: ['approve'] });
    // The last member has the place of the one that was reported.
    assert.equal(await chain.read('nodeList', 1), members[4]);
    await chain.refused('requestProposalAction', [0, hash], members[0]);
    const lost = await Promise.all(members.map(async (id, place) => bonds[place] - (await bond(id))));
    assert.deepEqual(lost, [0n, COIN, 0n, 0n, 0n], 'one member was reported');
    await checkMoney(chain, { exact: true });

    const operation = await chain.read('totalOperation');
    await chain.refused('requestEnterAndRedeemAction', [hash], stage.stranger, { gasPrice: 5000 * GAS_PRICE });
    await chain.refused('requestEnterAndRedeemAction', [hash], stage.stranger, { gasPrice: GAS_PRICE + 1 });
    assert.equal(await chain.read('totalOperation'), operation);
    await checkMoney(chain, { exact: true });
    for (const notice of ['enterAndRedeem', 'distribute']) {
        await chain.send('requestEnterAndRedeemAction', [hash], stage.stranger, { notices: [notice] });
    }
    assert.equal(await stage.rig.balance(redemptions[0][0]), COIN / PRICE);
    await checkMoney(chain, { exact: true });
    say('payouts: no price is too high for the chain base, and one action is enough');
}

/** A chain base without money for the gas of an action pays what it has, and no coin of its users. */
async function poorChain(stage) {
    const fund = 10n ** 15n;
    const { chain, members } = await started(stage, stage.scs.slice(0, 2), 'poor', { fund });
    const hash = await proposed(chain, members, 0, 'poor', { voters: [1] });
    await chain.send('requestProposalAction', [0, hash], members[0], { notices: ['distribute'] });
    assert.equal(await chain.read('totalOperation'), 0n);
    await checkMoney(chain, { exact: true });
    say('a poor chain base: the coins of users stay');
}

/** A proposer announces what nobody can pay, and uploads nothing again and again. */
async function junkUploads(stage) {
    const { rig } = stage;
    const { chain, members } = await started(stage, stage.scs.slice(0, 3), 'junk');
    const [proposer] = members;
    const booked = () => chain.read('currentRefundGas', proposer);
    const est = Number(await chain.read('getEstFlushBlock', 0));
    await rig.block(est - 1);
    const propose = (label, redemptions) => {
        const args = [0, [`0x${'0'.repeat(64)}`, hashOf(label)], [1, 5], ['0', '0', '0'], [], ZERO, redemptions];
        return ['createProposal', args, proposer];
    };
    await chain.refused(...propose('too many', REDEMPTIONS_MAX + 1));
    await chain.send(...propose('junk', REDEMPTIONS_MAX));
    const first = await booked();
    for (let count = 0; count < 3; count++) await chain.refused('UploadRedeemData', [[], []], proposer);
    assert.equal(await booked(), first, 'nothing was uploaded');
    const upload = async (count) => {
        const before = await booked();
        const lists = [Array(count).fill(somebody('a payee')), Array(count).fill('1')];
        await chain.send('UploadRedeemData', lists, proposer, { gas: 7_000_000 });
        return ((await booked()) - before) / BigInt(GAS_PRICE);
    };
    assert.equal(await upload(1), UPLOAD_GAS, 'a short upload is paid by its entries');
    const [whole, most] = [await upload(100), 100n * UPLOAD_GAS];
    assert.ok(whole > (most * 3n) / 4n && whole < most, `an honest upload is paid as a whole: ${whole}`);
    await rig.block(est + TURN + 1);
    await chain.send('requestProposalAction', [1, hashOf('junk')], members[1], { notices: [] });
    assert.equal((await proposal(chain, 1)).flag, 5n, 'it has expired');
    const late = await booked();
    await chain.refused('UploadRedeemData', [[ZERO], ['1']], proposer);
    assert.equal(await booked(), late);
    say('junk uploads: they book nothing');
}

/** Somebody frees a member from a MicroChain that was quiet for long. A flush that reports the member takes no bond. */
async function freedMember(stage) {
    const { rig, pool, stranger } = stage;
    const { chain, members } = await started(stage, stage.scs.slice(0, 4), 'quiet', { pause: QUIET + 1 });
    const free = [members[2], chain.address];
    assert.equal(await pool.trial('releaseRequest', free, stranger), false, 'the MicroChain has only just started');
    const since = Number(await pool.read('subChainLastActiveBlock', chain.address));
    await rig.block(since + QUIET);
    await pool.send('releaseRequest', free, stranger);
    assert.equal((await pool.read('approvalAddresses', members[2])).includes(chain.address), false, 'it is free');
    const operation = await chain.read('totalOperation');
    const hash = await proposed(chain, members, 3, 'quiet', { badActors: [2], voters: [0, 1] });
    await chain.send('requestProposalAction', [3, hash], members[3], { notices: ['distribute'] });
    assert.ok((await chain.read('totalOperation')) < operation, 'a flush costs something');
    await checkMoney(chain, { exact: true });
    // The round is longer now.
    const round = await chain.read('flushInRound');
    assert.ok(round > BigInt(ROUND), `${round}`);
    assert.equal(await pool.read('subChainExpireBlock', chain.address), 5n * round);
    say('a freed member: no bond is booked that did not come');
}

run(async () => {
    const { contracts } = JSON.parse(readFileSync(argument.compiled, 'utf8'));
    const rig = new Rig({ ...argument, contracts, makesBlocks: true });
    const [, owner, ...rest] = argument.accounts.map(({ address }) => address.toLowerCase());
    const pool = await rig.create('ScsPool', owner, ['POR', 10, 0], { gas: 3_000_000 });
    const vnodes = await rig.create('VnodePool', owner, [1], { gas: 3_000_000 });
    const scs = rest.slice(0, 5);
    const stage = { rig, owner, scs, user: rest[5], stranger: rest[6], outsider: rest[7], pool, vnodes };
    await rig.block(await register(pool, scs, owner));
    // One after the other, because each moves the blocks of all.
    for (const attack of [dearPayouts, poorChain, junkUploads, freedMember]) await attack(stage);
    return { attacks: 4 };
});
