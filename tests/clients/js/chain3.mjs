// The network's own library: a 12-field transaction signed by it, and a contract created by
// an account of the node.

import Chain3 from 'chain3';
import { promisify } from 'node:util';
import { argument, assert, run, waitFor } from './common.mjs';

const { url, key, from, to, value, gasPrice, creator, counter } = argument;
const chain3 = new Chain3(new Chain3.providers.HttpProvider(url));

const ask = (object, name, ...params) => promisify(object[name].bind(object))(...params);
const mined = (hash) => waitFor(`receipt of ${hash}`, () => ask(chain3.mc, 'getTransactionReceipt', hash));

run(async () => {
    const network = await ask(chain3.version, 'getNetwork');
    assert.equal(network, '100');

    const nonce = await ask(chain3.mc, 'getTransactionCount', from);
    const raw = chain3.signTransaction(
        {
            nonce: chain3.toHex(nonce),
            gasPrice,
            gasLimit: '0x5208',
            to,
            value,
            data: '0x',
            chainId: chain3.toHex(network),
            shardingFlag: '0x0',
        },
        key,
    );
    assert.equal(typeof raw, 'string', `signing failed: ${raw}`);
    const hash = await ask(chain3.mc, 'sendRawTransaction', raw);
    assert.equal(hash, chain3.sha3(raw, { encoding: 'hex' }), 'the hash is that of the 12-field form');
    const receipt = await mined(hash);

    const creation = await ask(chain3.mc, 'sendTransaction', { from: creator, data: counter.bytecode, gas: 500000 });
    const created = await mined(creation);
    const contract = chain3.mc.contract(counter.abi).at(created.contractAddress);
    const first = await ask(contract.get, 'call');
    const set = await ask(contract.set, 'sendTransaction', 7, { from: creator, gas: 100000 });
    const changed = await mined(set);
    const second = await ask(contract.get, 'call');

    return {
        hash,
        receipt,
        created,
        changed,
        // With a callback, the library gives a call's answer as it came.
        first: chain3.toBigNumber(first).toString(10),
        second: chain3.toBigNumber(second).toString(10),
        balance: (await ask(chain3.mc, 'getBalance', to)).toString(10),
    };
});
