// The life of MicroChains as far as it goes without an SCS program: pools, chain bases, members, flushes,
// deposits and withdrawals by hand-made transactions, with chain3 on a development node.
//
// The argument has the node, its accounts with keys, and the file of the compiled contracts. With `exact` the books of a
// chain base must match its balance to the last sha; the public network's contracts are off by some gas.

import { readFileSync } from 'node:fs';
import { argument, assert, run, say } from './common.mjs';
import { dappBase, register, vnodes } from './microchain-pools.mjs';
import { Rig, somebody } from './microchain-rig.mjs';
import { coins, faults, jammed, tokens, tooFew } from './microchain-scenes.mjs';

run(async () => {
    const { exact = true } = argument;
    const { contracts } = JSON.parse(readFileSync(argument.compiled, 'utf8'));
    const rig = new Rig({ ...argument, contracts });
    const [, owner, ...rest] = argument.accounts.map(({ address }) => address.toLowerCase());
    const [scs, users, outsider] = [rest.slice(0, 4), rest.slice(4, 6), rest[7]];
    const via = somebody('a via');
    const [pool, vnodePool] = await Promise.all([
        rig.create('ScsPool', owner, ['POR', 10, 0], { gas: 3_000_000 }),
        rig.create('VnodePool', owner, [1], { gas: 3_000_000 }),
    ]);
    assert.deepEqual([await pool.read('subChainProtocol'), await pool.read('bondMin')], ['POR', 10n]);

    const free = rest[6];
    const stage = { rig, owner, scs, free, users, outsider, pool, vnodes: vnodePool, exact };
    stage.ready = register(pool, [...scs, free], owner).then((block) => rig.block(block));
    // Each scene has a via of its own, so that its rewards can be counted.
    const scene = (play, label) => play({ ...stage, via: somebody(label) });
    await Promise.all([
        scene(faults, 'via 1'),
        scene(coins, 'via 2'),
        scene(tokens, 'via 3'),
        scene(jammed, 'via 4'),
        scene(tooFew, 'via 5'),
        dappBase(stage),
        vnodes(vnodePool, owner, via),
    ]);
    const created = Object.entries(rig.counts.created).map(([name, { bytes, gas }]) => `${name} ${bytes} bytes, ${gas} gas`);
    say(`created: ${created.join('; ')}`);
    return { transactions: rig.counts.transactions, created: rig.counts.created, head: await rig.head() };
});
