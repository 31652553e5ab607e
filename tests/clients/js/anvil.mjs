// Compares traces of this node with those of anvil. Both run the same transactions of the same account, so the
// contracts have the same addresses. Gas differs by the rules of the two networks and is left out.

import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { argument, assert, run, say } from './common.mjs';
import { call, scene } from './scene.mjs';

const { url } = argument;

// Cases in which anvil differs from geth and this node agrees with geth: geth counts the code of a creation as
// a call, lists no contract that did not exist before, and shows no destruction with onlyTopCall. Parity lists the
// values of a destroyed contract as removed, and so does this node; anvil shows them as unchanged.
const OTHERWISE = [
    [/^deploy/, /^4byteTracer|^prestateTracer {}/],
    [/^destroyed/, /onlyTopCall|^trace_replay/],
];

const isOtherwise = (name, what) => OTHERWISE.some(([others, which]) => others.test(name) && which.test(what));

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

/** The traces of the transaction, from a replay of its block. anvil does not replay one transaction. */
async function replayed(node, hash) {
    const { blockNumber } = await call(node, 'eth_getTransactionReceipt', [hash]);
    const block = await call(node, 'trace_replayBlockTransactions', [blockNumber, ['trace', 'stateDiff']]);
    return block.find(({ transactionHash }) => transactionHash === hash);
}

/** Each of the two loads the state that the other one has dumped. */
async function exchangeStates(anvil, contracts) {
    for (const [from, to, balance] of [
        [url, anvil, '0x1234'],
        [anvil, url, '0x5678'],
    ]) {
        const extra = `0x${balance.slice(2).repeat(10)}`;
        await call(from, 'anvil_setBalance', [extra, balance]);
        await call(from, 'anvil_setStorageAt', [contracts[0], '0x9', `0x${balance.slice(2).padStart(64, '0')}`]);
        assert.equal(await call(to, 'anvil_loadState', [await call(from, 'anvil_dumpState', [])]), true);
        for (const account of [extra, ...contracts]) {
            for (const [method, params] of [
                ['eth_getBalance', [account, 'latest']],
                ['eth_getTransactionCount', [account, 'latest']],
                ['eth_getCode', [account, 'latest']],
                ['eth_getStorageAt', [account, '0x9', 'latest']],
            ]) {
                const [one, other] = await Promise.all([from, to].map((node) => call(node, method, params)));
                assert.equal(one, other, `${method} ${account}`);
            }
        }
    }
}

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
                if (isOtherwise(name, `${tracer} ${JSON.stringify(tracerConfig)}`)) continue;
                const [one, other] = await Promise.all(
                    both.map(([node, hash]) => call(node, 'debug_traceTransaction', [hash, { tracer, tracerConfig }])),
                );
                compare(`${name}: ${tracer} ${JSON.stringify(tracerConfig)}`, part(one), part(other));
            }
            const [one, other] = await Promise.all(both.map(([node, hash]) => call(node, 'trace_transaction', [hash])));
            compare(`${name}: trace_transaction`, one, other);
            if (isOtherwise(name, 'trace_replayBlockTransactions')) continue;
            const replays = await Promise.all(both.map(([node, hash]) => replayed(node, hash)));
            compare(`${name}: trace_replayBlockTransactions`, ...replays.map(({ stateDiff, ...others }) => ({ ...others, stateDiff: keep(stateDiff) })));
        }
        await exchangeStates(anvil.url, ours.contracts);
        for (const difference of differences) say(JSON.stringify(difference));
        return { compared, differences: differences.map(({ what }) => what) };
    } finally {
        anvil.child.removeAllListeners('exit');
        anvil.child.kill();
    }
});
