// ethers and web3 on a MicroChain, through the path /chain/ADDRESS of an SCS: a deposit, transfers, calls of a Dapp with its
// event, a refusal, and a withdrawal.
//
// Argument: {url, scs, others, compiled, microchain, dappbase, counter, key, to}. `url` is the VNODE, `others` are further SCSs.
// `key` has coins on the base chain.

import { readFileSync } from 'node:fs';
import { Contract, ContractFactory, JsonRpcProvider, Wallet, WebSocketProvider } from 'ethers';
import { Web3 } from 'web3';
import { argument, assert, run, say, waitFor } from './common.mjs';

const { url, scs, others, compiled, microchain, dappbase, counter, key, to } = argument;
const { contracts } = JSON.parse(readFileSync(compiled, 'utf8'));
const COIN = 10n ** 18n;
const path = (server) => `${server}/chain/${microchain}`;
const options = { cacheTimeout: -1, pollingInterval: 200 };

run(async () => {
    const base = new JsonRpcProvider(url, undefined, options);
    const provider = new JsonRpcProvider(path(scs), undefined, options);
    const wallet = new Wallet(key, provider);
    const { chainId } = await provider.getNetwork();
    assert.ok(chainId >= 2n ** 50n && chainId < 2n ** 51n, 'an id of its own');
    assert.equal((await base.getNetwork()).chainId, 100n);
    assert.equal(await provider.send('net_version', []), chainId.toString());
    assert.equal((await provider.getFeeData()).gasPrice, 0n, 'gas is free');
    const block = await provider.getBlock('latest', true);
    assert.equal((await provider.getBlock(block.hash)).number, block.number);
    assert.ok((await provider.getCode(dappbase)).length > 2);

    // A deposit: coins go to the contract of the MicroChain on the base chain.
    const chainBase = new Contract(microchain, contracts.ChainBase.abi, new Wallet(key, base));
    await (await chainBase.buyMintToken({ value: COIN, type: 0 })).wait();
    const tokens = 1000n * COIN;
    await waitFor('the tokens', async () => ((await provider.getBalance(wallet.address)) === tokens ? true : null));

    // A transfer, signed by the wallet in nine fields.
    const sent = await wallet.sendTransaction({ to, value: 5n });
    const waiting = await provider.getTransaction(sent.hash);
    assert.deepEqual([waiting.hash, waiting.from, waiting.to?.toLowerCase()], [sent.hash, wallet.address, to.toLowerCase()]);
    assert.equal(sent.type, 0, 'no block has a base fee, so ethers chooses type 0');
    const receipt = await sent.wait();
    assert.deepEqual([receipt.hash, receipt.status, receipt.gasUsed, receipt.fee], [sent.hash, 1, 1000n, 0n]);
    assert.equal(await provider.getBalance(wallet.address), tokens - 5n);
    assert.equal(await provider.getBalance(to), 5n);
    const typed = { to, chainId, nonce: 1, gasLimit: 21_000, type: 2, maxFeePerGas: 1n, maxPriorityFeePerGas: 0n };
    await assert.rejects(provider.broadcastTransaction(await wallet.signTransaction(typed)), /got 2, expected 0.*gasPrice/);
    await assert.rejects(base.broadcastTransaction(await wallet.signTransaction({ ...sent.toJSON(), signature: undefined })), 'not on the base chain');
    for (const server of others) {
        const there = new JsonRpcProvider(path(server), undefined, options);
        const same = await waitFor('the receipt at another SCS', () => there.getTransactionReceipt(sent.hash));
        assert.equal(same.blockHash, receipt.blockHash);
        there.destroy();
    }
    say(`sent ${sent.hash} in block ${receipt.blockNumber}`);

    // A Dapp: reads, an estimate, a call, its event by a query and by a subscription.
    const socket = new WebSocketProvider(path(scs).replace('http', 'ws'));
    const heard = [];
    const heads = [];
    await new Contract(counter, contracts.Counter.abi, socket).on('Counted', (by, total) => heard.push({ by, total }));
    await socket.on('block', (number) => heads.push(number));
    const pending = [];
    await socket.on('pending', (hash) => pending.push(hash));
    const dapp = new Contract(counter, contracts.Counter.abi, wallet);
    const before = await dapp.total();
    const counted = await (await dapp.count(7)).wait();
    assert.equal(await dapp.total(), before + 7n);
    assert.equal(await dapp.total({ blockTag: counted.blockNumber - 1 }), before, 'the past is as it was');
    const [event] = await dapp.queryFilter(dapp.filters.Counted(wallet.address), block.number);
    assert.deepEqual([event.transactionHash, event.args.total], [counted.hash, before + 7n]);
    const told = await waitFor('the event by a subscription', () => heard[0]);
    assert.deepEqual([told.by, told.total], [wallet.address, before + 7n]);
    await waitFor('new heads by a subscription', () => heads[1]);
    await waitFor('a pending transaction by a subscription', () => pending.includes(counted.hash) || null);
    await assert.rejects(dapp.count.staticCall(0), { code: 'CALL_EXCEPTION' });

    // A trace, and what the explorer Otterscan asks.
    const trace = await provider.send('debug_traceTransaction', [counted.hash, { tracer: 'callTracer' }]);
    assert.deepEqual([trace.to, BigInt(trace.gasUsed)], [counter, counted.gasUsed]);
    const [flat] = await provider.send('trace_transaction', [counted.hash]);
    assert.equal(flat.action.to, counter);
    const details = await provider.send('ots_getBlockDetails', [counted.blockNumber]);
    assert.equal(BigInt(details.totalFees), 0n, 'nobody pays for gas');
    const history = await provider.send('ots_searchTransactionsBefore', [wallet.address, 0, 25]);
    assert.ok(history.txs.some((one) => one.hash === counted.hash), 'the history of an account');
    assert.ok((await provider.send('erigon_getHeaderByNumber', ['latest'])).hash);
    say(`counted in block ${counted.blockNumber}, heard over a WebSocket`);

    // The DappBase of the demo lets everybody create contracts. Only registered ones can be called; a wallet is told so before
    // it signs.
    const factory = new ContractFactory(contracts.Counter.abi, contracts.Counter.bytecode, wallet);
    const own = await (await factory.deploy()).waitForDeployment();
    assert.equal(await own.total(), 0n);
    await assert.rejects(own.count(1), { code: 'CALL_EXCEPTION', reason: /registered with DappBase/ });

    // The same with web3, which takes a transaction with a gas price for one of type 0.
    const web3 = new Web3(path(scs));
    web3.eth.transactionPollingInterval = 200;
    web3.eth.transactionConfirmationBlocks = 1;
    const account = web3.eth.accounts.wallet.add(key).get(0).address;
    assert.equal(await web3.eth.getChainId(), chainId);
    const gasPrice = await web3.eth.getGasPrice();
    const moved = await web3.eth.sendTransaction({ from: account, to, value: 6n, gasPrice });
    assert.deepEqual([moved.status, moved.gasUsed], [1n, 1000n]);
    const contract = new web3.eth.Contract(contracts.Counter.abi, counter);
    const again = await contract.methods.count(3).send({ from: account, gasPrice });
    const past = await contract.getPastEvents('Counted', { fromBlock: counted.blockNumber, toBlock: 'latest' });
    assert.equal(past.at(-1).transactionHash, again.transactionHash);
    say('transfer and call with web3');

    // A withdrawal: tokens go to DappBase, and with the next flush coins come back on the base chain.
    const vault = new Contract(dappbase, contracts.DappBase.abi, wallet);
    const coins = await base.getBalance(wallet.address);
    const redeemed = await (await vault.redeemFromMicroChain({ value: 500n * COIN })).wait();
    assert.equal(redeemed.status, 1);
    assert.equal(await provider.getBalance(wallet.address), tokens - 5n - 6n - 500n * COIN);
    return { chainId, redeemed: redeemed.blockNumber, coins, address: wallet.address };
});
