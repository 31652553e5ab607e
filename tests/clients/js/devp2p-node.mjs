// A peer by @ethereumjs/devp2p of a running node: Status, headers, bodies, receipts, a new block, a
// transaction, a wrong block 0, junk.

import { Common, Hardfork, Mainnet } from '@ethereumjs/common';
import { ETH, RLPx } from '@ethereumjs/devp2p';
import { RLP } from '@ethereumjs/rlp';
import { bytesToHex, bytesToInt, hexToBytes, intToBytes } from '@ethereumjs/util';

import { argument, assert, run, say, waitFor } from './common.mjs';

const NEW_BLOCK_HASHES = 1;
const TRANSACTIONS = 2;
const GET_BLOCK_HEADERS = 3;
const BLOCK_HEADERS = 4;
const GET_BLOCK_BODIES = 5;
const BLOCK_BODIES = 6;
const NEW_BLOCK = 7;
const GET_RECEIPTS = 15;
const RECEIPTS = 16;

const key = hexToBytes(argument.key);
const common = new Common({ chain: Mainnet, hardfork: Hardfork.Chainstart });
const capability = { name: 'mc', version: 63, length: 52, constructor: ETH };

/** Waits for the next message with this code. */
function receiver(eth) {
    const messages = [];
    eth.events.on('message', (code, payload) => messages.push({ code, payload }));
    return (what, ...codes) =>
        waitFor(what, () => {
            const at = messages.findIndex(({ code }) => codes.includes(code));
            return at < 0 ? null : messages.splice(at, 1)[0];
        });
}

async function talk(eth, next) {
    const ask = async (what, code, request, answer) => {
        eth.sendMessage(code, request);
        return (await next(what, answer)).payload;
    };
    const none = new Uint8Array();
    const headers = await ask('headers', GET_BLOCK_HEADERS, [none, intToBytes(3), none, none], BLOCK_HEADERS);
    assert.deepEqual(
        headers.map((fields) => (fields[8].length === 0 ? 0 : bytesToInt(fields[8]))),
        [0, 1, 2],
    );
    const hashes = argument.hashes.map(hexToBytes);
    const back = [hashes[2], intToBytes(2), intToBytes(1), intToBytes(1)];
    const reverse = await ask('headers below', GET_BLOCK_HEADERS, back, BLOCK_HEADERS);
    assert.deepEqual(
        reverse.map((fields) => bytesToHex(RLP.encode(fields))),
        [headers[2], headers[0]].map((fields) => bytesToHex(RLP.encode(fields))),
    );
    const unknown = new Uint8Array(32).fill(7);
    const bodies = await ask('bodies', GET_BLOCK_BODIES, [hashes[1], unknown, hashes[2]], BLOCK_BODIES);
    assert.equal(bodies.length, 2);
    const receipts = await ask('receipts', GET_RECEIPTS, hashes, RECEIPTS);
    assert.equal(receipts.length, 3);
    for (const [index, [transactions]] of bodies.entries()) {
        assert.equal(receipts[index + 1].length, transactions.length);
    }
    say('headers, bodies and receipts');
}

async function connect() {
    const rlpx = new RLPx(key, { capabilities: [capability], common, maxPeers: 5, timeout: 30_000 });
    let peer = null;
    let end = null;
    rlpx.events.on('peer:added', (added) => (peer = added));
    rlpx.events.on('peer:removed', (_, reason) => (end = Number(reason)));
    rlpx.events.on('peer:error', () => {});
    if (argument.mode === 'listen') {
        rlpx.listen(argument.port, '127.0.0.1');
        say('listening');
    } else {
        await rlpx.connect({ id: hexToBytes(argument.node), address: '127.0.0.1', tcpPort: argument.port });
    }
    await waitFor('a peer', () => peer);
    const eth = peer.getProtocols()[0];
    let status = null;
    eth.events.on('status', (got) => (status = got));
    const next = receiver(eth);
    const genesisHash = hexToBytes(argument.genesis);
    // The node is to end the connection, not the package.
    if (argument.mode === 'refused') eth._handleStatus = () => {};
    eth.sendStatus({ td: intToBytes(17), bestHash: genesisHash, genesisHash });
    if (argument.mode === 'refused') {
        await waitFor('the end', () => end);
        return { reason: end };
    }
    await waitFor('a status', () => status);
    const result = { network: bytesToInt(status.chainId), td: bytesToInt(status.td) };
    await talk(eth, next);
    // The test sends a transaction to the node and lets it mine.
    const { payload: transactions } = await next('a transaction', TRANSACTIONS);
    assert.equal(transactions[0].length, 12);
    const news = await next('a new block', NEW_BLOCK, NEW_BLOCK_HASHES);
    say(`a transaction, and a block as message ${news.code}`);
    // A number is no transaction.
    eth.sendMessage(TRANSACTIONS, [intToBytes(1)]);
    await waitFor('the end', () => end);
    return { ...result, reason: end };
}

run(connect);
