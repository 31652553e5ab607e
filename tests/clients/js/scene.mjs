// Transactions that have all kinds of calls: inner ones, creations, failures at the top and inside, a contract that
// destroys itself, logs.

import { waitFor } from './common.mjs';

const FROM = '0x00000000000000000000000000000000000000f1';
const GAS = '0x7a120';

export async function call(node, method, params) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const answer = await fetch(node, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const { error, result } = await answer.json();
    if (error) throw new Error(`${method} ${JSON.stringify(params)}: ${JSON.stringify(error)}`);
    return result;
}

const word = (value) => value.toString(16).padStart(64, '0');
/** Data that creates a contract of this code. */
const creation = (runtime) => {
    const length = (runtime.length / 2).toString(16).padStart(2, '0');
    return `0x60${length}600c60003960${length}6000f3${runtime}`;
};

// Stores its word in slot 0 and logs it, or reverts with it if it is 0xdead; without data it returns the slot.
const STORE =
    '36600f5760005460005260206000f35b6000358061dead14602c57806000558060005280601160206000a2005b60005260206000fd';
// Calls the store with its word and 3 wei, asks it without data, then creates an empty contract.
const forwarder = (to) =>
    '602060006000376000600060206000600373' + to + '62030d40f150' + '60006000600060006000' + '73' + to + '62030d40f150' + '600060006000f000';
// Destroys itself for the caller.
const MORTAL = '33ff';

/** Makes the same transactions on a node. Returns their hashes and the contracts. */
export async function scene(node) {
    await call(node, 'anvil_setBalance', [FROM, '0xde0b6b3a7640000']);
    await call(node, 'anvil_impersonateAccount', [FROM]);
    const hashes = {};
    const send = async (name, transaction) => {
        const hash = await call(node, 'eth_sendTransaction', [{ from: FROM, gas: GAS, gasPrice: '0x0', ...transaction }]);
        hashes[name] = hash;
        return waitFor('a receipt', () => call(node, 'eth_getTransactionReceipt', [hash]));
    };
    const store = (await send('deploy', { data: creation(STORE) })).contractAddress.toLowerCase();
    const middle = (await send('deployForwarder', { data: creation(forwarder(store.slice(2))), value: '0x64' })).contractAddress;
    const mortal = (await send('deployMortal', { data: creation(MORTAL) })).contractAddress;
    await send('direct', { to: store, data: `0x${word(7)}` });
    await send('forwarded', { to: middle, data: `0x${word(5)}` });
    await send('innerFailure', { to: middle, data: `0x${word(0xdead)}` });
    await send('failure', { to: store, data: `0x${word(0xdead)}` });
    await send('destroyed', { to: mortal, value: '0x9' });
    await send('transfer', { to: '0x00000000000000000000000000000000000000f2', value: '0x1' });
    return { hashes, contracts: [store, middle.toLowerCase(), mortal.toLowerCase()] };
}
