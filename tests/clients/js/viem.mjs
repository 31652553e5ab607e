// viem with the eth_ aliases: reads, a transfer, a contract that is created and called, deployless calls and
// overrides of the state, events over HTTP and WebSockets, proofs, fees, and typed data.

import { createPublicClient, createWalletClient, decodeFunctionResult, encodeFunctionData, http, keccak256, toHex, verifyTypedData, webSocket } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { argument, assert, run, say, waitFor } from './common.mjs';

const { url, ws, key, to, value, counter, unlocked } = argument;
const { abi, bytecode, runtime } = counter;

const chain = {
    id: 100,
    name: 'development network',
    nativeCurrency: { name: 'coin', symbol: 'C', decimals: 18 },
    rpcUrls: { default: { http: [url], webSocket: [ws] } },
};
const typed = {
    domain: { name: 'test', version: '1', chainId: 100, verifyingContract: to },
    types: { Order: [{ name: 'from', type: 'address' }, { name: 'amounts', type: 'uint256[]' }] },
    primaryType: 'Order',
    message: { from: to, amounts: [1n, 2n ** 255n] },
};

run(async () => {
    const options = { chain, pollingInterval: 200, cacheTime: 0 };
    const client = createPublicClient({ ...options, transport: http(url, { batch: true }) });
    const socket = createPublicClient({ ...options, transport: webSocket(ws) });
    const account = privateKeyToAccount(key);
    const wallet = createWalletClient({ ...options, account, transport: http(url) });
    assert.equal(await client.getChainId(), 100);
    const block = await client.getBlock({ includeTransactions: true });
    assert.equal((await client.getBlock({ blockHash: block.hash })).number, block.number);
    for (const blockTag of ['safe', 'finalized', 'earliest', 'pending']) await client.getBlock({ blockTag });
    const before = await client.getBalance({ address: account.address });
    const fees = await client.getFeeHistory({ blockCount: 2, rewardPercentiles: [50] });
    assert.equal(fees.baseFeePerGas.length, fees.gasUsedRatio.length + 1);
    const { gasPrice } = await client.estimateFeesPerGas({ type: 'legacy' });

    const heads = [];
    const stopHeads = socket.watchBlocks({ onBlock: (head) => heads.push(head.number) });
    const hash = await wallet.sendTransaction({ to, value: BigInt(value), type: 'legacy', gasPrice });
    const receipt = await client.waitForTransactionReceipt({ hash });
    assert.equal(receipt.status, 'success');
    const paid = receipt.gasUsed * receipt.effectiveGasPrice;
    assert.equal(before - (await client.getBalance({ address: account.address })), BigInt(value) + paid);
    const found = await client.getTransaction({ hash });
    assert.deepEqual([found.type, found.value, found.from], ['legacy', BigInt(value), account.address.toLowerCase()]);
    say(`sent ${value} to ${to}: ${hash} in block ${receipt.blockNumber}`);

    const created = await wallet.deployContract({ abi, bytecode, gasPrice });
    const { contractAddress: address } = await client.waitForTransactionReceipt({ hash: created });
    assert.equal(await client.getCode({ address }), runtime);
    const read = (more) => client.readContract({ address, abi, functionName: 'get', ...more });
    const first = await read();

    // Without an address: the call creates the contract, and ends with it.
    const data = encodeFunctionData({ abi, functionName: 'get' });
    const answer = await client.call({ code: bytecode, data });
    assert.equal(decodeFunctionResult({ abi, functionName: 'get', data: answer.data }), first);
    const word = (number) => toHex(number, { size: 32 });
    const stateOverride = [{ address, stateDiff: [{ slot: word(0), value: word(99) }] }];
    assert.equal(await read({ stateOverride }), 99n);
    await assert.rejects(
        client.simulateContract({ account, address, abi, functionName: 'set', args: [0n] }),
        { name: 'ContractFunctionExecutionError' },
    );
    say(`created ${address}: get() is ${first}, and 99 with another storage`);

    const heard = { http: [], ws: [] };
    const watch = (client, list) => {
        const onLogs = (logs) => list.push(...logs.map((log) => log.args.value));
        return client.watchContractEvent({ address, abi, eventName: 'Changed', onLogs });
    };
    const stops = [watch(client, heard.http), watch(socket, heard.ws)];
    // Both have asked for events before there is one.
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const { request } = await client.simulateContract({ account, address, abi, functionName: 'set', args: [7n], gasPrice });
    const changed = await client.waitForTransactionReceipt({ hash: await wallet.writeContract(request) });
    const second = await read();
    assert.equal(await read({ blockNumber: changed.blockNumber - 1n }), first, 'the past is as it was');
    await waitFor('the event over HTTP', () => heard.http[0]);
    await waitFor('the event over WebSockets', () => heard.ws[0]);
    await waitFor('a head over WebSockets', () => heads[0]);
    for (const stop of [stopHeads, ...stops]) stop();
    const [event] = await client.getContractEvents({ address, abi, eventName: 'Changed', fromBlock: block.number });
    assert.equal(event.transactionHash, changed.transactionHash);
    say(`set 7 in block ${changed.blockNumber}: heard of it by a filter and by a subscription`);

    const proof = await client.getProof({ address, storageKeys: [word(0)] });
    assert.deepEqual([proof.codeHash, proof.storageProof[0].value], [keccak256(runtime), second]);
    const list = await client.request({ method: 'eth_getBlockReceipts', params: [toHex(changed.blockNumber)] });
    assert.ok(list.some((each) => each.transactionHash === changed.transactionHash));

    const node = createWalletClient({ ...options, account: unlocked, transport: http(url) });
    const signature = await node.signTypedData(typed);
    assert.ok(await verifyTypedData({ ...typed, address: unlocked, signature }), 'the node signs typed data');

    return {
        hash,
        contract: address,
        first,
        second,
        event: { by: event.args.by, value: event.args.value },
        heard: [heard.http[0], heard.ws[0]],
        balance: await client.getBalance({ address: to }),
    };
});
