// Compares what the explorer of the dashboard reads by an ABI with what ethers reads: selectors, topics, and the values
// of random calls and logs.

import { pathToFileURL } from 'node:url';
import { Interface, keccak256, toUtf8Bytes } from 'ethers';
import { argument, assert, run } from './common.mjs';

/** The files keep what the reader gives in the browser. */
const kept = new Map();
globalThis.localStorage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };

const TYPES = ['uint256', 'int8', 'address', 'bool', 'bytes', 'bytes4', 'string', 'uint16[]', 'bytes32[2]', 'string[]', 'bytes[2][]'];
const TUPLE = { type: 'tuple[]', components: [{ type: 'string', name: 'text' }, { type: 'int64', name: 'number' }, { type: 'address[]', name: 'list' }] };
const ADDRESS = '0x00000000000000000000000000000000000000aa';

/** Random numbers, always the same. */
let seed = 1;
const random = (below) => {
    seed = (seed * 48271) % 2147483647;
    return seed % below;
};
const hex = (bytes) => `0x${Array.from({ length: bytes }, () => random(256).toString(16).padStart(2, '0')).join('')}`;

function valueOf({ type, components }) {
    const array = /^(.*)\[(\d*)\]$/.exec(type);
    if (array) return Array.from({ length: array[2] === '' ? random(4) : Number(array[2]) }, () => valueOf({ type: array[1], components }));
    if (type === 'tuple') return components.map(valueOf);
    if (type === 'string') return ['', 'a "b"', 'länger als ein Wort, das zweiunddreißig Bytes hat'][random(3)];
    if (type === 'bool') return random(2) === 1;
    if (type === 'address') return hex(20);
    if (type === 'bytes') return hex(random(70));
    if (type.startsWith('bytes')) return hex(Number(type.slice(5)));
    if (type.startsWith('int')) return BigInt.asIntN(Number(type.slice(3)), BigInt(hex(8)));
    return BigInt.asUintN(Number(type.slice(4)), BigInt(hex(32)));
}

/** The value as the explorer writes it. */
function text(value, { type, components }) {
    const array = /^(.*)\[(\d*)\]$/.exec(type);
    if (array) return `[${value.map((one) => text(one, { type: array[1], components })).join(', ')}]`;
    if (type === 'tuple') return `(${value.map((one, at) => text(one, components[at])).join(', ')})`;
    return type === 'string' ? JSON.stringify(value) : String(value).toLowerCase();
}

const input = (at) => (random(6) === 0 ? { ...TUPLE, name: `p${at}` } : { type: TYPES[random(TYPES.length)], name: `p${at}` });

run(async () => {
    const page = (name) => import(pathToFileURL(`${argument.page}/${name}`).href);
    const own = await page('keccak.js');
    for (const length of [0, 1, 135, 136, 137, 272, 400]) {
        const one = 'ä'.repeat(length >> 1) + 'x'.repeat(length & 1);
        assert.equal(`0x${own.keccak256(one)}`, keccak256(toUtf8Bytes(one)));
    }
    const abi = await page('abi.js');
    let compared = 0;
    for (let round = 0; round < 200; round += 1) {
        const inputs = Array.from({ length: random(5) }, (_, at) => input(at));
        const entry = { type: 'function', name: `f${round}`, inputs, outputs: [], stateMutability: 'nonpayable' };
        const values = inputs.map(valueOf);
        const ethers = new Interface([entry]);
        abi.keepAbi(ADDRESS, JSON.stringify([entry]));
        const call = ethers.encodeFunctionData(entry.name, values);
        const read = abi.readCall(ADDRESS, call);
        assert.deepEqual(read.values.map(({ value }) => value), values.map((value, at) => text(value, inputs[at])), JSON.stringify(inputs));
        assert.equal(read.signature, ethers.getFunction(entry.name).format('sighash'));
        // Data that end too early are those of no call, and never an endless loop.
        if (call.length > 10) assert.equal(abi.readCall(ADDRESS, call.slice(0, 10 + random(call.length - 73))), null);
        const fields = inputs.map((one, at) => ({ ...one, indexed: at < 2 && /^(u?int|address|bool|bytes4)\d*$/.test(one.type) }));
        const event = { type: 'event', name: `E${round}`, inputs: fields, anonymous: false };
        abi.keepAbi(ADDRESS, JSON.stringify({ contractName: 'C', abi: [event] }));
        const log = new Interface([event]).encodeEventLog(event.name, values);
        const found = abi.readEvent({ address: ADDRESS, ...log });
        assert.deepEqual(found.values.map(({ value }) => value), values.map((value, at) => text(value, inputs[at])), JSON.stringify(fields));
        compared += 2;
    }
    // The code of a contract, with a library, an immutable value and other metadata.
    const metadata = (byte) => `${byte.repeat(5)}0005`;
    const code = (library, immutable, byte) => `0x73${library}6001${immutable}55${metadata(byte)}`;
    const output = (byte) => JSON.stringify({ contracts: { 'a.sol': { A: { evm: { deployedBytecode: {
        object: code(`__$${'ab'.repeat(17)}$__`, '00'.repeat(32), byte).slice(2),
        immutableReferences: { 7: [{ start: 23, length: 32 }] },
    } } } } } });
    const deployed = code('11'.repeat(20), '22'.repeat(32), 'aa');
    assert.deepEqual(abi.verifiedBy(deployed, output('aa')), { name: 'A', exact: true });
    assert.deepEqual(abi.verifiedBy(deployed, output('bb')), { name: 'A', exact: false });
    assert.equal(abi.verifiedBy(deployed.replace('6001', '6002'), output('aa')), null);
    assert.deepEqual(abi.verifiedBy(deployed, JSON.stringify({ contracts: { 'a.sol:B': { 'bin-runtime': deployed.slice(2) } } })), { name: 'a.sol:B', exact: true });
    for (const bad of ['{}', '[1]', '{"contracts": {"a": null}}']) {
        assert.throws(() => abi.verifiedBy(deployed, bad), /expected an artifact/);
        assert.throws(() => abi.keepAbi(null, bad), /expected an ABI/);
    }
    abi.keepVerified(ADDRESS, deployed, { name: 'A', exact: true });
    assert.equal(abi.keptVerified(ADDRESS, deployed).name, 'A');
    assert.equal(abi.keptVerified(ADDRESS, `${deployed}00`), null);
    return { compared };
});
