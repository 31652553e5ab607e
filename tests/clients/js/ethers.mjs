// ethers with the eth_ aliases: reads, a legacy transfer signed by the script, and a contract whose event
// is found by a query and by polling.

import { Contract, ContractFactory, JsonRpcProvider, Wallet } from 'ethers';
import { argument, assert, run, say, waitFor } from './common.mjs';

const { url, key, to, value, counter } = argument;

run(async () => {
    // Without the cache of the library, which would return an old balance for a quarter of a second.
    const options = { cacheTimeout: -1, pollingInterval: 200 };
    const provider = new JsonRpcProvider(url, undefined, options);
    const wallet = new Wallet(key, provider);
    const { chainId } = await provider.getNetwork();
    assert.equal(chainId, 100n);
    const block = await provider.getBlock('latest', true);
    assert.equal((await provider.getBlock(block.hash)).number, block.number, 'the same block by its hash');
    assert.equal(block.prefetchedTransactions.length, block.length, 'a block with its transactions');
    const before = await provider.getBalance(wallet.address);
    assert.ok(before > BigInt(value), 'a funded account');
    const nonce = await provider.getTransactionCount(wallet.address);
    const { gasPrice } = await provider.getFeeData();
    say(`chain ${chainId}, block ${block.number}; ${wallet.address} has ${before}, nonce ${nonce}`);

    const sent = await wallet.sendTransaction({ to, value: BigInt(value), type: 0, gasPrice });
    const receipt = await sent.wait();
    const found = await provider.getTransaction(sent.hash);
    assert.equal(found.type, 0);
    assert.equal(found.signature.serialized, sent.signature.serialized, 'the signature that was sent');
    assert.equal(receipt.hash, sent.hash, 'the hash that the library computed');
    assert.equal(before - (await provider.getBalance(wallet.address)), BigInt(value) + receipt.fee);
    // The blocks have no base fee, so the library chooses the 9-field form.
    const unsaid = await wallet.populateTransaction({ to, value: 1n });
    assert.deepEqual([unsaid.type, unsaid.maxFeePerGas], [0, undefined]);
    say(`sent ${value} to ${to}: ${sent.hash} in block ${receipt.blockNumber}, gas ${receipt.gasUsed}`);

    const factory = new ContractFactory(counter.abi, counter.bytecode, wallet);
    const deployed = await (await factory.deploy({ type: 0 })).waitForDeployment();
    const address = await deployed.getAddress();
    assert.equal(await provider.getCode(address), counter.runtime);
    const contract = new Contract(address, counter.abi, wallet);
    const first = await contract.get();
    say(`created ${address}: get() is ${first}`);

    // Over HTTP the library polls: by a filter of the node, or by the logs of the blocks.
    const polling = new JsonRpcProvider(url, undefined, { ...options, polling: true });
    const heard = { filter: [], polling: [] };
    await contract.on('Changed', (by, changed) => heard.filter.push(changed));
    const polled = contract.connect(polling);
    await polled.on('Changed', (by, changed) => heard.polling.push(changed));
    const changed = await (await contract.set(7, { type: 0 })).wait();
    const second = await contract.get();
    assert.equal(await contract.get({ blockTag: changed.blockNumber - 1 }), first, 'the past is as it was');
    await assert.rejects(contract.set.staticCall(0), { code: 'CALL_EXCEPTION' }, 'zero is refused');
    await waitFor('the event by a filter', () => heard.filter[0]);
    await waitFor('the event by polling', () => heard.polling[0]);
    // The provider that polls is not destroyed: it may be waiting for an answer, and would fail.
    for (const each of [contract, polled]) await each.removeAllListeners();
    say(`set 7 in block ${changed.blockNumber}: get() is ${second}, heard of it by a filter and by polling`);

    const events = await contract.queryFilter(contract.filters.Changed(wallet.address), block.number, 'latest');
    const none = await contract.queryFilter(contract.filters.Changed(to), 0, 'latest');
    assert.deepEqual([events.length, none.length], [1, 0]);
    const [event] = events;
    assert.equal(event.transactionHash, changed.hash);
    say(`found ${events.length} event ${event.eventName}(${event.args.by}, ${event.args.value})`);

    return {
        hash: sent.hash,
        status: receipt.status,
        contract: address,
        first,
        second,
        event: { by: event.args.by, value: event.args.value },
        heard: [heard.filter[0], heard.polling[0]],
        balance: await provider.getBalance(to),
    };
});
