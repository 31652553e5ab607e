// Contracts with chain3: created and called, their events found and watched, and several requests
// in a batch.

import { promisify } from 'node:util';
import { assert, say, waitFor } from './common.mjs';

/** Runs a batch. Returns its results in their order; a request that failed has an Error. */
function batch(chain3, requests) {
    const bundle = chain3.createBatch();
    const answers = requests.map(
        ([member, ...params]) =>
            new Promise((resolve) => {
                bundle.add(member.request(...params, (error, answer) => resolve(error ?? answer)));
            }),
    );
    bundle.execute();
    return Promise.all(answers);
}

export async function contracts(walk, { account, counter, to }) {
    const { chain3, recorder } = walk;
    recorder.used.add('mc.contract');
    const factory = chain3.mc.contract(counter.abi);
    // The callback is called twice: with the hash of the transaction, and when the contract exists.
    const contract = await new Promise((resolve, reject) => {
        factory.new({ from: account, data: counter.bytecode, gas: 500000 }, (error, one) => {
            if (error) reject(error);
            else if (one.address) resolve(one);
        });
    });
    walk.contract = contract;
    say(`created ${contract.address} in ${contract.transactionHash}`);

    const first = await promisify(contract.get.call)();
    recorder.used.add('mc.filter');
    const blocks = [];
    const heads = chain3.mc.filter('latest', (error, hash) => blocks.push(error ?? hash));
    const pending = [];
    const waiting = chain3.mc.filter('pending', (error, hash) => pending.push(error ?? hash));
    const watched = [];
    const watch = contract.Changed({ by: account }, { fromBlock: 0, toBlock: 'latest' });
    watch.watch((error, event) => watched.push(error ?? event));
    // The last of the filters is created last, so when it exists all of them exist.
    await waitFor('the filters', () => (heads.filterId && waiting.filterId && watch.filterId ? true : null));

    const gas = await promisify(contract.set.estimateGas)(7, { from: account });
    const hash = await promisify(contract.set.sendTransaction)(7, { from: account, gas });
    const receipt = await walk.mined(hash);
    await assert.rejects(promisify(contract.set.estimateGas)(0, { from: account }), /revert/, 'zero is refused');
    say(`set 7 with ${receipt.gasUsed} gas of ${gas} in block ${receipt.blockNumber}`);

    await waitFor('a watched event', () => watched[0]);
    await waitFor('a new block', () => blocks[0]);
    await waitFor('a pending transaction', () => pending.find((one) => one === hash));
    const once = contract.Changed({}, { fromBlock: receipt.blockNumber, toBlock: receipt.blockNumber });
    const all = contract.allEvents({ fromBlock: 0, toBlock: 'latest' });
    const others = contract.Changed({ by: to }, { fromBlock: 0, toBlock: 'latest' });
    const logsOf = (filter) => promisify(filter.get.bind(filter))();
    const [events, every, none] = await Promise.all([once, all, others].map(logsOf));
    assert.deepEqual(none, [], 'nothing by another');
    for (const filter of [heads, waiting, watch, once, all, others]) {
        assert.equal(await promisify(filter.stopWatching.bind(filter))(), true, 'uninstalled');
    }
    assert.equal(await walk.ask('mc_uninstallFilter', heads.filterId), false, 'uninstalled before');
    const seen = await walk.use('mc.getBlock', blocks[0], false);
    assert.equal(seen.hash, blocks[0], 'a watched block is there');
    say(`found ${events.length} event in its block, ${every.length} in all, watched ${watched.length}`);

    const answers = await batch(chain3, [
        [contract.get],
        [chain3.mc.getBalance, account, 'latest'],
        [chain3.mc.getBlockNumber],
        [chain3.mc.getTransactionReceipt, hash],
        [chain3.mc.call, { to: contract.address, data: contract.set.getData(0) }, 'latest'],
    ]);
    const [second, balance, number, again, failed] = answers;
    assert.ok(balance.gt(0) && number >= receipt.blockNumber);
    assert.deepEqual(again, receipt);
    assert.ok(failed instanceof Error && /revert/.test(failed.message), `got ${failed}, expected an error of its own`);
    say(`a batch of ${answers.length}: get() is ${second}, the call that reverts failed alone`);

    const event = ({ event: name, args: { by, value }, transactionHash }) => ({
        name,
        by,
        value: value.toNumber(),
        transactionHash,
    });
    return {
        address: contract.address,
        creation: contract.transactionHash,
        hash,
        first: chain3.toBigNumber(first).toNumber(),
        second: second.toNumber(),
        events: events.map(event),
        every: every.map(event),
        watched: watched.map(event),
    };
}
