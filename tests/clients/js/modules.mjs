// Every property and method that the network's own library has for the interface, module by
// module, over HTTP and over the local socket: what each gives, as JSON.

import Chain3 from 'chain3';
import net from 'node:net';
import { promisify } from 'node:util';
import { argument, run } from './common.mjs';

const { url, socket, account, peer, key } = argument;

const PASSWORD = 'a password';
const EMPTY_WORK = ['0x0000000000000001', `0x${'11'.repeat(32)}`, `0x${'22'.repeat(32)}`];

/** Properties: asked with a callback through the function that the library makes for each. */
const PROPERTIES = {
    mc: ['coinbase', 'mining', 'hashrate', 'syncing', 'gasPrice', 'accounts', 'blockNumber', 'protocolVersion'],
    net: ['listening', 'peerCount'],
    admin: ['datadir', 'peers', 'nodeInfo'],
    txpool: ['content', 'status', 'inspect'],
    personal: ['listAccounts'],
    vnode: ['showToPublic', 'ip', 'serviceCfg', 'address', 'scsService'],
    version: ['node', 'network'],
};

async function walk(chain3, over) {
    const found = {};
    const ask = async (module, method, ...params) => {
        const object = chain3[module];
        const result = await promisify(object[method].bind(object))(...params);
        found[`${module}.${method}`] = result === undefined ? null : result;
        return result;
    };
    for (const [module, names] of Object.entries(PROPERTIES)) {
        for (const name of names) await ask(module, `get${name[0].toUpperCase()}${name.slice(1)}`);
    }
    await ask('mc', 'getBalance', account);
    await ask('mc', 'getStorageAt', account, 0, 'latest');
    await ask('mc', 'getCode', account, 'latest');
    const transaction = { from: account, to: account, value: 1, gas: 21000, gasPrice: 20000000000 };
    const hash = await ask('mc', 'sendTransaction', transaction);
    let receipt = null;
    while (!receipt) receipt = await ask('mc', 'getTransactionReceipt', hash);
    await ask('mc', 'getTransaction', hash);
    await ask('mc', 'getTransactionCount', account, 'latest');
    const block = await ask('mc', 'getBlock', receipt.blockHash, true);
    await ask('mc', 'getBlock', block.number, false);
    await ask('mc', 'getBlockTransactionCount', block.hash);
    await ask('mc', 'getBlockTransactionCount', block.number);
    await ask('mc', 'getBlockUncleCount', block.hash);
    await ask('mc', 'getTransactionFromBlock', block.hash, receipt.transactionIndex);
    await ask('mc', 'getUncle', block.hash, 0);
    await ask('mc', 'signTransaction', transaction);
    await ask('mc', 'sign', account, chain3.toHex('a message'));
    await ask('mc', 'call', { to: account, data: '0x' });
    await ask('mc', 'estimateGas', transaction);
    await ask('mc', 'getWork');
    await ask('mc', 'submitWork', ...EMPTY_WORK);

    await ask('admin', 'addPeer', peer);
    if (over === 'ipc') {
        // Only one listener at a time, and the other walk is over it.
        await ask('admin', 'stopRPC');
        await ask('admin', 'startRPC', '127.0.0.1', 0, '', 'mc,net,chain3');
    }

    const made = await ask('personal', 'newAccount', PASSWORD);
    await ask('personal', 'unlockAccount', made, PASSWORD, 10);
    await ask('personal', 'lockAccount', made);
    const message = chain3.toHex('a message');
    const signature = await ask('personal', 'sign', message, made, PASSWORD);
    found.recovered = (await ask('personal', 'ecRecover', message, signature)) === made;
    if (over === 'ipc') await ask('personal', 'importRawKey', key, PASSWORD);
    return found;
}

run(async () => {
    const http = new Chain3(new Chain3.providers.HttpProvider(url));
    const result = { http: await walk(http, 'http') };
    const ipc = new Chain3(new Chain3.providers.IpcProvider(socket, net));
    result.ipc = await walk(ipc, 'ipc');
    return result;
});
