// A VNODE made from the table of messages: @grpc/grpc-js with a service definition of our own. An SCS process
// connects to it, shakes hands, reads a chain base, and registers. Then the stub goes away and comes back.
//
// Argument: {scs, folder, compiled, chainId}. `scs` is the path of the program. The result has what the stub got.

import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';
import { RLP } from '@ethereumjs/rlp';
import { Interface, concat, keccak256, recoverAddress, sha256, toBeHex } from 'ethers';
import { argument, assert, run, say, waitFor } from './common.mjs';

const { scs, folder, compiled, chainId } = argument;
const { moac } = grpc.loadPackageDefinition(loader.loadSync('vnode_scs.proto', { keepCase: true, longs: String, defaults: true }));
const { ChainBase, ScsPool } = JSON.parse(readFileSync(compiled, 'utf8')).contracts;
const base = new Interface(ChainBase.abi);
const pool = new Interface(ScsPool.abi);

/** The code of a contract, which the end of its constructor copies and returns. */
const deployed = ({ bytecode }) => {
    const [, length, start] = /61(.{4})80(?:61|62)(.{4,6})6000396000f300/.exec(bytecode);
    const from = 2 + 2 * parseInt(start, 16);
    return bytes(bytecode.slice(from, from + 2 * parseInt(length, 16)));
};

const POOL = `0x${'b0'.repeat(20)}`;
const CHAIN = `0x${'c1'.repeat(20)}`;
const OTHER = `0x${'0f'.repeat(20)}`;
const VIA = `0x${'71'.repeat(20)}`;
const ZERO = `0x${'00'.repeat(20)}`;
const NO_HASH = `0x${'00'.repeat(32)}`;
const COIN = 10n ** 18n;

const bytes = (hex) => Buffer.from(hex.replace(/^0x/, ''), 'hex');
const hex = (buffer) => `0x${Buffer.from(buffer).toString('hex')}`;
const number = (value) => {
    const four = Buffer.alloc(4);
    four.writeUInt32BE(value);
    return four;
};

/** The state that the chain base reports. A test changes it. */
const state = { role: 4n, nodes: [], bond: COIN, registration: 1n, head: 7, nonce: 0 };
const noProposal = [ZERO, NO_HASH, NO_HASH, 0, 0, [], 0, 0, [], 0, [], ZERO, 0, [], [], [], 0, []];
const answers = {
    priceOneGInMOAC: () => [10],
    getSCSRole: () => [state.role],
    getVnodeInfo: () => [[POOL, [3, 11], [5n * 10n ** 14n, 10n ** 11n, 10n ** 16n], 24, OTHER, state.bond, 0, OTHER,
        1000n * COIN, [0, 160, 130, 500], state.nodes, []]],
    getProposal: () => [noProposal],
    getEnteringAmount: () => [[], [], [], [250, 6]],
    nodeCount: () => [state.nodes.length],
    flushInRound: () => [40],
    totalOperation: () => [0],
    contractNeedFund: () => [0],
    nodeToReleaseCount: () => [0],
    currentRefundGas: () => [0],
};
/** The pool: a bond of two coins, of which nothing is locked. */
const poolAnswers = { scsList: (id) => [id, 2n * COIN, 1, 1, 0], scsApprovalList: () => [0, 0] };

const got = { handshakes: [], streams: 0, calls: new Set(), slots: [], transactions: [], unknown: [] };
const streams = new Set();

function push(call) {
    got.streams += 1;
    call.on('data', (message) => {
        if (message.type.readUInt32BE() !== 4) return;
        const [operation, key, capability, chain] = RLP.decode(message.msghash);
        got.handshakes.push({
            id: message.scsid.toString(),
            fields: [operation, key].map((text) => Buffer.from(text).toString()),
            capability: Number(hex(capability)),
            chainId: Number(hex(chain)),
        });
        call.write({ ...message, requestflag: false, sender: bytes(VIA), msghash: RLP.encode('shakereply') });
        streams.add(call);
        call.write({ requestid: Buffer.from('stub-1'), type: number(5), requestflag: true, msghash: RLP.encode([state.head]) });
    });
    call.on('error', () => streams.delete(call));
    call.on('end', () => call.end());
}

function publicCall({ request }, reply) {
    const contract = hex(request.contractaddr);
    if (contract === POOL) {
        const call = pool.parseTransaction({ data: hex(request.data) });
        const result = pool.encodeFunctionResult(call.name, poolAnswers[call.name](...call.args));
        return reply(null, { requestid: request.requestid, replybody: bytes(result) });
    }
    // Our SCS asks for the gas limit and the branch. A VNODE of others answers with nothing.
    if (contract === '0x') return reply(null, { requestid: request.requestid, replybody: Buffer.alloc(0) });
    const call = base.parseTransaction({ data: hex(request.data) });
    if (contract !== CHAIN || !call || !answers[call.name]) {
        got.unknown.push(`${contract} ${call?.name}`);
        return reply(null, { requestid: request.requestid, replybody: Buffer.alloc(0) });
    }
    got.calls.add(call.name);
    const result = base.encodeFunctionResult(call.name, answers[call.name](...call.args));
    return reply(null, { requestid: request.requestid, replybody: bytes(result) });
}

function chainInfo({ request }, reply) {
    const address = hex(request.consensusaddr);
    const json = (body) => reply(null, { requestid: request.requestid, replybody: Buffer.from(JSON.stringify(body)) });
    const account = { Balance: 0, Nonce: 0, Root: '00'.repeat(32), CodeHash: Buffer.alloc(32).toString('base64'), Code: '', Storage: {} };
    if (address === POOL) return json({ ...account, Code: deployed(ScsPool).toString('base64') });
    if (address !== CHAIN) return json({ ...account, Nonce: state.nonce });
    const slots = { [9]: '', [0xd]: hex(RLP.encode(bytes(`0x${'ff'.repeat(32)}`))).slice(2), [0x15]: hex(RLP.encode(Number(state.registration))).slice(2) };
    const Storage = {};
    for (const { reqtype, storagekey } of request.request) {
        assert.equal(reqtype, 4);
        const slot = Number(BigInt(hex(storagekey)));
        got.slots.push(slot);
        Storage[slot.toString(16).padStart(64, '0')] = slots[slot];
    }
    return json({ ...account, Code: deployed(ChainBase).toString('base64'), Storage });
}

function accountInfo({ request }, reply) {
    const body = RLP.encode([request.addr, COIN, state.nonce, Buffer.alloc(32), 0, 0, 0, 0]);
    return reply(null, { requestid: request.requestid, replybody: Buffer.from(body) });
}

function remoteCall({ request }, reply) {
    got.transactions.push(RLP.decode(request.data).map(hex));
    return reply(null, { requestid: request.requestid, replybody: Buffer.from(RLP.encode('success')) });
}

async function serve(port) {
    const server = new grpc.Server();
    const refuse = (_, reply) => reply({ code: grpc.status.UNIMPLEMENTED });
    server.addService(moac.Vnode.service, {
        ScsPush: push, ScbPublicCall: publicCall, ChainInfo: chainInfo, AccountInfo: accountInfo, RemoteCall: remoteCall,
        UploadBlock: refuse, DownloadBlock: refuse,
    });
    const bound = await new Promise((resolve, reject) =>
        server.bindAsync(`127.0.0.1:${port}`, grpc.ServerCredentials.createInsecure(), (error, at) => (error ? reject(error) : resolve(at))),
    );
    return { server, port: bound };
}

const notice = (status, transaction) => ({
    requestid: Buffer.from(`${'ab'.repeat(64)}-${status}`), requestflag: true, type: number(3), status: number(status),
    subchainid: bytes(CHAIN), receiver: bytes(CHAIN), msghash: bytes(transaction),
});

run(async () => {
    const { server, port } = await serve(0);
    mkdirSync(folder, { recursive: true });
    const settings = { VnodeServiceCfg: `127.0.0.1:${port}`, VnodechainId: chainId, BondLimit: 1, ReWardMin: 0.0001, Capability: 7, ReconnectInterval: 1 };
    writeFileSync(`${folder}/userconfig.json`, JSON.stringify(settings));
    const child = spawn(scs, ['--period', '2'], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
    let printed = '';
    child.stdout.on('data', (text) => (printed += text));
    process.on('exit', () => child.kill('SIGKILL'));

    const [first] = await waitFor('a handshake', () => (got.handshakes.length ? got.handshakes : null));
    await waitFor('the stream for broadcasts', () => (got.streams >= 2 ? true : null));
    say(`handshake of ${first.id}`);
    assert.ok(printed.includes(first.id), 'the id was printed');

    // The bond is above BondLimit: it reads and does not join.
    const stream = () => [...streams].at(-1);
    state.bond = COIN + 1n;
    stream().write(notice(0, NO_HASH));
    await waitFor('the reads', () => (got.calls.has('getVnodeInfo') && got.slots.includes(0x15) ? true : null));
    await new Promise((resolve) => setTimeout(resolve, 500));
    assert.equal(got.transactions.length, 0, 'no registration with a bond that is too high');

    // The bond is right at the next head.
    state.bond = COIN;
    state.head = 8;
    stream().write({ requestid: Buffer.from('stub-2'), type: number(5), requestflag: true, msghash: RLP.encode([state.head]) });
    const [fields] = await waitFor('a registration', () => (got.transactions.length ? got.transactions : null));
    const [nonce, syscnt, gasPrice, gas, to, value, data, flag, via, v, r, s] = fields;
    assert.equal(to, CHAIN);
    const call = base.parseTransaction({ data });
    assert.equal(call.name, 'registerAsSCS');
    // The signature of the transaction is the SCS's, and so is that of its agreement.
    const unsigned = RLP.encode([nonce, syscnt, gasPrice, gas, to, value, data, flag, via].map(bytes).concat([bytes(`0x${chainId.toString(16)}`), Buffer.alloc(0), Buffer.alloc(0)]));
    const parity = Number((BigInt(v) - 35n) % 2n);
    const pad = (word) => `0x${word.slice(2).padStart(64, '0')}`;
    const sender = recoverAddress(keccak256(unsigned), { r: pad(r), s: pad(s), yParity: parity });
    const signed = sha256(concat([first.id, CHAIN, toBeHex(COIN, 32), POOL]));
    const agreed = recoverAddress(signed, { v: Number(call.args[1]), r: call.args[2], s: call.args[3] });
    say(`registration: ${call.name}, gas ${Number(gas)}, price ${Number(gasPrice)}`);

    // The registration is in a block, and later the base chain takes it back: the SCS registers again.
    const headIs = async (head) => {
        got.calls.clear();
        state.head = head;
        stream().write({ requestid: Buffer.from(`stub-${head}`), type: number(5), requestflag: true, msghash: RLP.encode([head]) });
        await waitFor(`the reads at block ${head}`, () => (got.calls.has('getVnodeInfo') ? true : null));
    };
    Object.assign(state, { role: 1n, nodes: [first.id], nonce: 1 });
    await headIs(9);
    await new Promise((resolve) => setTimeout(resolve, 500));
    assert.equal(got.transactions.length, 1, 'a member does not register');
    Object.assign(state, { role: 4n, nodes: [], nonce: 0 });
    await headIs(30);
    const [, second] = await waitFor('another registration', () => (got.transactions.length >= 2 ? got.transactions : null));
    assert.equal(base.parseTransaction({ data: second[6] }).name, 'registerAsSCS');
    assert.equal(second[0], nonce, 'the nonce is free again');

    // The VNODE goes away and comes back at the same address. The SCS shakes hands again and reads again.
    got.calls.clear();
    server.forceShutdown();
    state.role = 0n;
    const again = await serve(port);
    await waitFor('another handshake', () => (got.handshakes.length >= 2 ? true : null));
    await waitFor('reads after the connection', () => (got.calls.has('getVnodeInfo') ? true : null));
    child.kill('SIGINT');
    const code = await new Promise((resolve) => child.on('exit', resolve));
    again.server.forceShutdown();
    return {
        id: first.id, handshake: first, handshakes: got.handshakes.length, sender: sender.toLowerCase(), agreed: agreed.toLowerCase(),
        beneficiary: call.args[0], nonce, unknown: got.unknown, code,
    };
});
