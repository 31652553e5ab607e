// chain3 as the client of a VNODE and an SCS: every method of its scs module, its Dapp objects, and money in both directions.
//
// Argument: {url, scs, compiled, microchain, dappbase, counter, via, accounts}. `accounts` have coins on the base chain and are
// unlocked there; the second one owns the contracts. The result says what was seen.

import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import Chain3 from 'chain3';
import { Interface } from 'ethers';
import { argument, assert, run, say, waitFor } from './common.mjs';

const { url, scs: scsUrls, compiled, microchain, dappbase, counter, via, accounts } = argument;
const { contracts } = JSON.parse(readFileSync(compiled, 'utf8'));
const COIN = 10n ** 18n;
const HASH = /^0x[0-9a-f]{64}$/;
const ADDRESS = /^0x[0-9a-f]{40}$/;

const chain3 = new Chain3(new Chain3.providers.HttpProvider(url));
chain3.setScsProvider(new Chain3.providers.HttpProvider(scsUrls[0]));
const scs = new Proxy(chain3.scs, { get: (target, name) => (...params) => promisify(target[name])(...params) });
const mc = new Proxy(chain3.mc, { get: (target, name) => (...params) => promisify(target[name])(...params) });

async function rpc(at, method, ...params) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const answer = await fetch(at, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const { result, error } = await answer.json();
    if (error) throw new Error(error.message);
    return result;
}

const [, owner, user, ...others] = accounts;
const dapp = new Interface(contracts.Counter.abi);
const base = new Interface(contracts.DappBase.abi);
const chainBase = new Interface(contracts.ChainBase.abi);

/** Sends a transaction of the MicroChain through the VNODE. */
const send = (from, nonce, flag, data, value = 0n) =>
    rpc(url, 'mc_sendTransaction', {
        from, to: microchain, nonce: `0x${nonce.toString(16)}`, gas: '0x0', gasPrice: '0x0', shardingFlag: `0x${flag.toString(16)}`,
        via, data, value: `0x${value.toString(16)}`,
    });
const receipt = (hash) => waitFor(`a receipt of ${hash}`, () => rpc(scsUrls[0], 'scs_getReceiptByHash', microchain, hash));
const balance = async (account) => BigInt(await rpc(scsUrls[0], 'scs_getBalance', microchain, account));
const call = async (contract, method, ...args) => {
    const data = chainBase.encodeFunctionData(method, args);
    return chainBase.decodeFunctionResult(method, await rpc(url, 'mc_call', { to: contract, data }, 'latest'));
};

run(async () => {
    assert.equal(chain3.isScsConnected(), true);
    const list = await scs.getMicroChainList();
    assert.deepEqual(list, [microchain]);
    assert.deepEqual(await scs.getAppChainList(), list);
    const id = await scs.getSCSId();
    assert.match(id, ADDRESS);
    assert.equal(typeof (await scs.getDatadir()), 'string');
    assert.match(await scs.protocolVersion(), /^0x[0-9a-f]+$/);
    assert.equal(await promisify(chain3.scs.getListening ?? ((done) => done(null, true)))(), true);

    const info = await scs.getMicroChainInfo(microchain);
    const contract = (await call(microchain, 'getVnodeInfo'))[0];
    assert.equal(info.owner, contract.owner);
    assert.deepEqual([...info.scsList].sort(), [...contract.nodeList].sort());
    assert.deepEqual(
        [info.balance, info.blockReward, info.txReward, info.viaReward, info.bondLimit].map(BigInt),
        [contract.BALANCE, ...contract.rewards, contract.penaltyBond],
    );
    assert.deepEqual(await scs.getAppChainInfo(microchain), info);

    assert.deepEqual(await scs.getDappAddrList(microchain), [dappbase, counter]);
    assert.equal(await scs.getDappState(microchain), 1);
    const head = await scs.getBlockNumber(microchain);
    assert.ok(head >= 3);
    const block = await scs.getBlock(microchain, head);
    assert.deepEqual([block.number, HASH.test(block.hash), ADDRESS.test(block.miner)], [head, true, true]);
    const blocks = await scs.getBlockList(microchain, 1, 3);
    assert.deepEqual([blocks.startBlk, blocks.endBlk, blocks.microchainAddress], ['0x1', '0x3', microchain]);
    assert.equal(blocks.blockList[1].parentHash, blocks.blockList[0].hash);
    say(`head ${head}, block ${block.hash}`);

    // The Dapp, called by the objects of chain3 and by hand.
    const nonce = await scs.getNonce(microchain, owner);
    assert.ok(nonce >= 3, 'DappBase, the counter, its registration');
    const functions = dapp.fragments.filter((one) => one.type === 'function').map((one) => one.name);
    const reading = dapp.fragments.find((one) => one.type === 'function' && one.constant && one.inputs.length === 0).name;
    const writing = dapp.fragments.find((one) => one.type === 'function' && !one.constant);
    say(`functions of the Dapp: ${functions}; ${reading} is read, ${writing.name} is written`);
    const read = async (at) => dapp.decodeFunctionResult(reading, await rpc(at, 'scs_directCall', { to: microchain, dappAddr: counter, data: dapp.encodeFunctionData(reading) }))[0];
    const before = await read(scsUrls[0]);
    const args = writing.inputs.map(() => 5);
    const hash = await send(owner, nonce, 1, counter + dapp.encodeFunctionData(writing.name, args).slice(2));
    const done = await receipt(hash);
    assert.deepEqual([done.failed, done.status, done.contractAddress, done.transactionHash], [false, '0x1', null, hash]);
    assert.notEqual(await read(scsUrls[0]), before);
    const returned = Buffer.from(done.result, 'base64').toString('hex');
    assert.equal(BigInt(`0x${returned}`), await read(scsUrls[0]), 'the call returns the new total');
    for (const log of done.logs) assert.equal(Buffer.from(log.data, 'base64').toString('base64'), log.data);
    const by = [await scs.getTransactionByHash(microchain, hash), await scs.getReceiptByHash(microchain, hash),
        await scs.getTransactionByNonce(microchain, owner, nonce), await scs.getReceiptByNonce(microchain, owner, nonce)];
    for (const one of by) assert.deepEqual([one.transactionHash, one.blockHash, one.from], [hash, done.blockHash, owner]);
    const unknown = await rpc(scsUrls[0], 'scs_getReceiptByNonce', microchain, owner, nonce + 5);
    assert.equal(unknown, null);
    assert.deepEqual(await rpc(scsUrls[0], 'scs_directCall', { to: microchain, data: base.encodeFunctionData('enterPos') }),
        await rpc(scsUrls[0], 'scs_directCall', { to: microchain, dappAddr: microchain, data: base.encodeFunctionData('enterPos') }));
    const object = chain3.microchain(contracts.DappBase.abi);
    object.setVnodeAddress(via);
    const instance = object.getDapp(microchain, contracts.Counter.abi, counter);
    assert.ok(instance[reading], 'getDapp gives the functions of the Dapp');
    assert.equal(BigInt((await promisify(instance[reading])()).toString()), await read(scsUrls[0]));

    // All SCSs say the same.
    const same = await waitFor('all SCSs at this block', async () => {
        const all = await Promise.all(scsUrls.map((at) => rpc(at, 'scs_getBlock', microchain, done.blockNumber)));
        return all.every((one) => one?.hash === done.blockHash) ? all.length : null;
    });

    // Money: a deposit, a transfer, a withdrawal.
    const supply = await balance(dappbase);
    const value = `0x${COIN.toString(16)}`;
    await rpc(url, 'mc_sendTransaction', { from: user, to: microchain, value, gas: '0x493e0', gasPrice: '0x4a817c800', data: chainBase.encodeFunctionData('buyMintToken()') });
    const waiting = await waitFor('a deposit that waits', async () => {
        const exchange = await scs.getExchangeByAddress(microchain, user, 0, 10, 0, 10, 0, 10, 0, 10);
        return exchange.DepositingRecordCount + exchange.DepositRecordCount > 0 ? exchange : null;
    });
    const tokens = 1000n * COIN;
    await waitFor('the tokens', async () => ((await balance(user)) === tokens ? true : null));
    assert.equal(await balance(dappbase), supply - tokens);
    const exchange = await scs.getExchangeByAddress(microchain, user, 0, 10, 0, 10, 0, 10, 0, 10);
    assert.deepEqual([exchange.DepositRecordCount, exchange.DepositRecords.length, exchange.DepositRecords[0]], [1, 2, null]);
    assert.equal(BigInt(exchange.DepositRecords[1].DepositAmt), tokens);
    const receiver = others[0];
    assert.equal((await receipt(await send(user, 0, 2, receiver, 100n * COIN))).failed, false);
    assert.deepEqual([await balance(user), await balance(receiver)], [tokens - 100n * COIN, 100n * COIN]);
    const redeem = dappbase + base.encodeFunctionData('redeemFromMicroChain').slice(2);
    assert.equal((await receipt(await send(user, 1, 1, redeem, 500n * COIN))).failed, false);
    const open = await scs.getExchangeInfo(microchain, 0, 10, 0, 10);
    assert.deepEqual([open.WithdrawingRecordCount, BigInt(open.WithdrawingRecords[1].WithdrawingAmt)], [1, 500n * COIN]);
    assert.equal(await balance(dappbase) + await balance(user) + await balance(receiver), supply, 'no token is lost');
    assert.deepEqual(await scs.getTxpool(microchain), { pending: {}, queued: {} });
    say('deposit, transfer, withdrawal');
    return { id, head, hash, same, waiting: waiting.DepositingRecordCount, block: await scs.getBlockNumber(microchain) };
});
