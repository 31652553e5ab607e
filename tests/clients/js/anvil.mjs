// Compares traces of this node with those of anvil. Both run the same transactions of the same account, so the
// contracts have the same addresses. Gas differs by the rules of the two networks and is left out.

import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { argument, assert, run, say, waitFor } from './common.mjs';

const { url } = argument;
const FROM = '0x00000000000000000000000000000000000000f1';
const GAS = '0x7a120';

// Where anvil does something else than geth, and this node what geth does: geth counts the code of a creation as
// a call, lists no contract that did not exist before, and shows no destruction with onlyTopCall.
const OTHERWISE = [
    [/^deploy/, /^4byteTracer|^prestateTracer {}/],
    [/^destroyed/, /onlyTopCall/],
];

/** The program of the package for this system. */
function program() {
    const system = `${process.platform}-${{ x64: 'amd64', arm64: 'arm64' }[process.arch]}`;
    const require = createRequire(import.meta.url);
    return join(dirname(require.resolve(`@foundry-rs/anvil-${system}/package.json`)), 'bin', 'anvil');
}

/** Starts anvil on a free port. */
function startAnvil() {
    const options = ['--port', '0', '--chain-id', '100', '--hardfork', 'petersburg', '--base-fee', '0', '--gas-price', '0'];
    const child = spawn(program(), options, { stdio: ['ignore', 'pipe', 'inherit'] });
    return new Promise((resolve, reject) => {
        let text = '';
        child.on('exit', (code) => reject(new Error(`anvil ended with ${code}: ${text}`)));
        child.stdout.on('data', (data) => {
            text += data;
            const found = /Listening on (\S+)/.exec(text);
            if (found) resolve({ child, url: `http://${found[1]}` });
        });
    });
}

async function call(node, method, params) {
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
async function scene(node) {
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

/** The value without gas, places in the chain, and words that differ between programs. */
function comparable(value) {
    const left = ['gas', 'gasUsed', 'blockHash', 'blockNumber', 'transactionHash', 'transactionPosition', 'revertReason', 'creationMethod', 'index'];
    // A failed call has no result in Parity's form. anvil gives the output of a revert there.
    if (value?.error && value.result) return comparable({ ...value, result: undefined });
    if (Array.isArray(value)) return value.map(comparable);
    if (value === null || typeof value !== 'object') {
        return typeof value === 'string' ? value.toLowerCase().replace(/^evm: /, '') : value;
    }
    const entries = Object.entries(value).filter(([name, member]) => !left.includes(name) && member !== undefined);
    return Object.fromEntries(entries.map(([name, member]) => [name.toLowerCase(), comparable(member)]));
}

/** Only the accounts of the contracts: the others pay for gas. */
const only = (contracts) => (accounts) =>
    Object.fromEntries(Object.entries(accounts).filter(([address]) => contracts.includes(address.toLowerCase())));

run(async () => {
    const anvil = await startAnvil();
    try {
        const [ours, theirs] = [await scene(url), await scene(anvil.url)];
        assert.deepEqual(ours.contracts, theirs.contracts, 'the same addresses');
        const keep = only(ours.contracts);
        const tracers = [
            ['callTracer', {}, (trace) => trace],
            ['callTracer', { onlyTopCall: true }, (trace) => trace],
            ['callTracer', { withLog: true }, (trace) => trace],
            ['4byteTracer', {}, (trace) => trace],
            ['noopTracer', {}, (trace) => trace],
            ['prestateTracer', {}, keep],
            ['prestateTracer', { diffMode: true }, ({ pre, post }) => ({ pre: keep(pre), post: keep(post) })],
        ];
        const differences = [];
        let compared = 0;
        const compare = (what, one, other) => {
            compared += 1;
            try {
                assert.deepEqual(comparable(one), comparable(other));
            } catch {
                differences.push({ what, ours: comparable(one), theirs: comparable(other) });
            }
        };
        for (const name of Object.keys(ours.hashes)) {
            const both = [
                [url, ours.hashes[name]],
                [anvil.url, theirs.hashes[name]],
            ];
            for (const [tracer, tracerConfig, part] of tracers) {
                if (OTHERWISE.some(([others, which]) => others.test(name) && which.test(`${tracer} ${JSON.stringify(tracerConfig)}`))) continue;
                const [one, other] = await Promise.all(
                    both.map(([node, hash]) => call(node, 'debug_traceTransaction', [hash, { tracer, tracerConfig }])),
                );
                compare(`${name}: ${tracer} ${JSON.stringify(tracerConfig)}`, part(one), part(other));
            }
            const [one, other] = await Promise.all(both.map(([node, hash]) => call(node, 'trace_transaction', [hash])));
            compare(`${name}: trace_transaction`, one, other);
        }
        for (const difference of differences) say(JSON.stringify(difference));
        return { compared, differences: differences.map(({ what }) => what) };
    } finally {
        anvil.child.removeAllListeners('exit');
        anvil.child.kill();
    }
});
