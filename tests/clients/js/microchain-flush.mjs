// A flush by hand-made transactions, and the checks of what a flush must leave.

import { concat, keccak256, toBeHex, zeroPadValue } from 'ethers';
import { assert } from './common.mjs';
import { NO_HASH, SLOTS, proposal, vnodeInfo } from './microchain-rig.mjs';

/// A turn of a member, in base blocks.
export const TURN = 48;
const ROUND_MAX = 500n;
const ROUND_GROWTH = 40n;
const MILLION = 10n ** 6n;
const DEFLATOR = 80n;
const PENDING = 1n;
const APPROVED = 3n;

const word = (value) => (typeof value === 'string' ? zeroPadValue(value, 32) : toBeHex(value, 32));
const digest = (...values) => keccak256(concat(values.map(word)));

/**
 * The hash that binds all that is proposed (docs/microchain-contracts.md, 4.4), for a proposal as `proposal` reads it and
 * the hash of its last block. With the hash of the base block before the turn, `anchor`, it names the branch, too.
 */
export function boundHash(chain, block, anchor, { lastApproved, startingBlock, start, end, distributionAmount, minerAddr, badActors, via, redeemAddr, redeemAmt }) {
    const lists = digest(...distributionAmount, ...minerAddr, ...badActors);
    const fields = digest(startingBlock, start, end, redeemAddr.length, minerAddr.length);
    const head = digest(chain, lastApproved, via, block, fields, lists);
    const content = redeemAddr.reduce((before, user, index) => digest(before, user, redeemAmt[index]), head);
    const tag = anchor ? concat([Buffer.from('mcf3'), anchor.slice(0, 10)]) : Buffer.from('mcflush2');
    return concat([tag, `0x${content.slice(18)}`]);
}

/** A reward after one more flush. */
export const deflated = (reward) => reward - (reward * DEFLATOR) / MILLION;

/** Checks that a chain base owns what it has booked, to the last sha. */
export async function checkMoney(chain, { exact }) {
    const [operation, bonds] = [await chain.read('totalOperation'), await chain.read('totalBond')];
    const deposited = chain.name === 'ChainBase'
        ? (await chain.read('totalExchange')) / (await chain.read('priceOneGInMOAC'))
        : 0n;
    const [owned, booked] = [await chain.rig.balance(chain.address), operation + bonds + deposited];
    if (exact) assert.equal(owned, booked, `${chain.name} owns what it has booked`);
    return owned - booked;
}

/**
 * One flush from the proposal to the end, with the votes of `voters` (places in the node list). Checks every
 * step, the rewards and what the contract says afterwards. `rewards` has the blocks and transactions of each
 * member, `redemptions` pairs of address and tokens. With `bound` the hash binds all that is proposed, `hash` is that of the
 * last block, and the contract must refuse anything else.
 */
export async function flush(chain, { hash: given, bound = false, blocks, rewards, redemptions = [], via, proposer, voters, badActors = [], exact }) {
    const { rig } = chain;
    const before = await vnodeInfo(chain);
    const members = before.nodeList;
    const last = await chain.read('proposalHashApprovedLast');
    const [blockReward, txReward, viaReward] = before.rewards;
    const amounts = rewards.map(([made, transactions]) => BigInt(made) * blockReward + BigInt(transactions) * txReward);
    const place = (index) => members[index];

    const est = Number(await chain.read('getEstFlushBlock', proposer));
    await rig.block(est - 1);
    const content = {
        lastApproved: last, startingBlock: est, start: blocks[0], end: blocks[1], distributionAmount: amounts, minerAddr: members,
        badActors, via, redeemAddr: redemptions.map(([user]) => user), redeemAmt: redemptions.map(([, tokens]) => tokens),
    };
    const earlier = async (back) => (await rig.request('mc_getBlockByNumber', [`0x${(est - back).toString(16)}`, false])).hash;
    const anchored = async (back) => boundHash(chain.address, given, await earlier(back), content);
    // Both kinds of bound hashes are tried.
    const hash = !bound ? given : redemptions.length > 0 ? boundHash(chain.address, given, null, content) : await anchored(1);
    const hashes = bound ? [last, hash, given] : [last, hash];
    const propose = [proposer, hashes, blocks, amounts.map(String), badActors, via, redemptions.length];
    if (bound && redemptions.length === 0) {
        const richer = amounts.map((amount, index) => String(index === proposer ? amount + 1n : amount));
        for (const wrong of [
            [proposer, [last, hash], ...propose.slice(2)],
            [proposer, [last, await anchored(2), given], ...propose.slice(2)],
            [proposer, hashes, blocks, richer, badActors, via, 0],
            [proposer, hashes, [blocks[0], blocks[1] + 1], ...propose.slice(3)],
            [...propose.slice(0, 5), place(proposer), 0],
        ]) {
            await rig.block(est);
            await assert.rejects(chain.trial('createProposal', wrong, place(proposer)), /revert/, 'not what the hash says');
        }
    }
    const uploads = redemptions.length > 0 ? 'uploadRedeem' : 'createProposal';
    await chain.send('createProposal', propose, place(proposer), { notices: [uploads] });
    const open = await proposal(chain, 1);
    assert.equal(await chain.read('proposalHashInProgress'), hash);
    assert.deepEqual(
        [open.proposedBy, open.lastApproved, open.hash, open.start, open.end, open.flag, open.startingBlock],
        [place(proposer), last, hash, ...blocks.map(BigInt), PENDING, BigInt(est)],
    );
    assert.deepEqual([open.voters, open.votecount], [[BigInt(proposer)], 1n]);
    assert.deepEqual(open.distributionAmount, amounts);
    assert.deepEqual(open.badActors, badActors.map(BigInt));
    assert.deepEqual(open.minerAddr, members);
    assert.deepEqual([open.via, open.preRedeemNum, open.distributeFlag], [via, BigInt(redemptions.length), 0n]);
    assert.deepEqual([open.redeemAddr, open.redeemAmt, open.redeemAgreeList], [[], [], [place(proposer)]]);
    assert.equal(await chain.read('checkProposalStatus', hash), 0n, 'one of several votes decides nothing');

    // One redemption in a transaction shows that uploads add up. Votes do not wait for them here.
    const upload = ([user, tokens], index) => {
        const notices = [index + 1 === redemptions.length ? 'createProposal' : 'uploadRedeem'];
        return chain.send('UploadRedeemData', [[user], [tokens.toString()]], place(proposer), { notices });
    };
    const vote = (index) => chain.send('voteOnProposal', [index, hash, true], place(index), { notices: [] });
    if (bound && redemptions.length > 0) {
        const thief = place(proposer);
        const early = chain.trial('requestProposalAction', [proposer, hash], thief);
        await assert.rejects(early, /revert/, 'not all is uploaded');
        for (const [index, pair] of redemptions.entries()) {
            // After all but the last one, another last one is refused.
            if (index + 1 === redemptions.length) await chain.refused('UploadRedeemData', [[thief], [pair[1].toString()]], thief);
            await upload(pair, index);
        }
    } else {
        await Promise.all(redemptions.map(upload));
    }
    await Promise.all(voters.map(vote));
    const voted = await proposal(chain, 1);
    assert.equal(voted.votecount, BigInt(voters.length + 1));
    assert.deepEqual([voted.redeemAddr, voted.redeemAmt], [redemptions.map(([user]) => user), redemptions.map(([, tokens]) => tokens)]);
    assert.deepEqual(new Set(voted.redeemAgreeList), new Set([proposer, ...voters].map(place)));
    assert.equal(await chain.trial('voteOnProposal', [voters[0], hash, true], place(voters[0])), false, 'no second vote');
    assert.equal(await chain.read('checkProposalStatus', hash), 1n, 'more than half have voted');

    const refunds = await Promise.all(members.map((scs) => chain.read('currentRefundGas', scs)));
    const [roundBefore, positionBefore] = [await chain.read('flushInRound'), before.redeems[0]];
    const beneficiaries = await Promise.all(members.map((scs) => chain.read('scsBeneficiary', scs)));
    const balances = () => Promise.all([...beneficiaries, via].map((address) => rig.balance(address)));
    const poorer = await balances();
    const closing = before.status === 1n;

    let receipt;
    if (redemptions.length === 0) {
        const notices = ['distribute'];
        receipt = await chain.send('requestProposalAction', [proposer, hash], place(proposer), { notices });
    } else {
        await chain.send('requestProposalAction', [proposer, hash], place(proposer), { notices: ['approve'] });
        assert.equal((await proposal(chain, 1)).distributeFlag, 1n);
        // Anyone may carry out redemptions; the first call does all of these, the second pays the rewards.
        await chain.send('requestEnterAndRedeemAction', [hash], place(voters[0]), { notices: ['enterAndRedeem'] });
        assert.equal((await proposal(chain, 1)).preRedeemNum, 0n);
        const notices = ['distribute'];
        receipt = await chain.send('requestEnterAndRedeemAction', [hash], place(voters[0]), { notices });
    }

    // With redemptions the via's reward has deflated before it is paid.
    const viaPaid = redemptions.length > 0 ? deflated(viaReward) : viaReward;
    const richer = await balances();
    const gained = richer.map((balance, index) => balance - poorer[index]);
    assert.deepEqual(gained, [...amounts, viaPaid], 'beneficiaries and via get their rewards to the last sha');
    const events = [['TransferAmount', via, viaPaid]];
    for (const [index, scs] of members.entries()) {
        events.push(['TransferAmount', scs, refunds[index]], ['TransferAmount', beneficiaries[index], amounts[index]]);
    }
    assert.deepEqual(chain.events(receipt), events);

    const [done, after] = [await proposal(chain, 2), await vnodeInfo(chain)];
    assert.deepEqual([done.hash, done.flag, done.preRedeemNum], [hash, APPROVED, 0n]);
    // In a flush without redemptions the flag of the distribution goes back to 1.
    assert.equal(done.distributeFlag, redemptions.length > 0 ? 2n : 1n);
    assert.deepEqual(after.rewards, before.rewards.map(deflated), 'rewards deflate once in a flush');
    assert.deepEqual([await chain.read('proposalHashApprovedLast'), await chain.read('proposalHashInProgress')], [hash, NO_HASH]);
    assert.equal(after.redeems[0], positionBefore + BigInt(redemptions.length), 'the next withdrawal');
    for (const scs of members) assert.equal(await chain.read('currentRefundGas', scs), 0n);

    const booked = amounts.reduce((sum, amount) => sum + amount, 0n);
    // The contract computes with the block reward of this moment, which has deflated with redemptions.
    const rate = redemptions.length > 0 ? deflated(blockReward) : blockReward;
    const perTransaction = redemptions.length > 0 ? deflated(txReward) : txReward;
    const counted = BigInt.asUintN(256, booked - rate * BigInt(blocks[1] - blocks[0] + 1)) / perTransaction;
    const initial = await chain.read('initialFlushInRound');
    const grown = roundBefore + ROUND_GROWTH > ROUND_MAX ? ROUND_MAX : roundBefore + ROUND_GROWTH;
    const halved = roundBefore / 2n < initial ? initial : roundBefore / 2n;
    assert.equal(await chain.read('flushInRound'), counted <= 100n ? grown : halved, 'the round follows the work');
    assert.equal(await chain.slot(SLOTS.lastFlush), BigInt(receipt.blockNumber));
    if (!closing) {
        const first = BigInt(receipt.blockNumber) + (await chain.read('flushInRound'));
        const count = Number(await chain.read('nodeCount'));
        const turns = await Promise.all(after.nodeList.slice(0, count).map((_, index) => chain.read('getEstFlushBlock', index)));
        const next = (proposer + 1) % count;
        const expected = turns.map((_, index) => first + BigInt(TURN * ((index + count - next) % count)));
        assert.deepEqual(turns, expected, 'the next turn is that of the one after the proposer');
    }
    await checkMoney(chain, { exact });
    return receipt;
}
