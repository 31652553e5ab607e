// A node by @ethereumjs/devp2p. It dials, is dialled, or takes part in discovery.

import { existsSync } from 'node:fs';

import { Common, Hardfork, Mainnet } from '@ethereumjs/common';
import { DPT, ETH, RLPx } from '@ethereumjs/devp2p';
import { RLP } from '@ethereumjs/rlp';
import { bytesToHex, bytesToInt, hexToBytes, intToBytes } from '@ethereumjs/util';

import { argument, assert, run, say, waitFor } from './common.mjs';

const GET_BLOCK_HEADERS = 3;
const BLOCK_HEADERS = 4;
const REQUEST_ID = 4711;

const key = hexToBytes(argument.key);
const common = new Common({ chain: Mainnet, hardfork: Hardfork.Chainstart });

function capabilities() {
    const { name, version } = argument.capability;
    if (name === 'eth') return [ETH[`eth${version}`]];
    return [{ name, version, length: 52, constructor: ETH }];
}

/** Exchanges Status, asks for headers, and answers one request for them. */
async function talk(peer) {
    const eth = peer.getProtocols()[0];
    const hasIds = argument.capability.name === 'eth' && eth.getVersion() >= 66;
    const header = hexToBytes(argument.header);
    const result = { client: peer.getHelloMessage().clientId, id: bytesToHex(peer.getId()), version: eth.getVersion() };
    eth.events.on('status', (status) => (result.status = status));
    eth.events.on('message', (code, payload) => {
        if (code === BLOCK_HEADERS) {
            if (hasIds) assert.equal(bytesToInt(payload[0]), REQUEST_ID);
            result.headers = (hasIds ? payload[1] : payload).map((fields) => bytesToHex(RLP.encode(fields)));
        }
        if (code === GET_BLOCK_HEADERS) {
            result.asked = bytesToHex(RLP.encode(payload));
            const headers = [RLP.decode(header)];
            eth.sendMessage(BLOCK_HEADERS, hasIds ? [payload[0], headers] : headers);
        }
    });
    const genesisHash = hexToBytes(argument.genesis);
    eth.sendStatus({ td: intToBytes(17), bestHash: genesisHash, genesisHash });
    await waitFor('a status', () => result.status);
    const request = [intToBytes(1), intToBytes(3), new Uint8Array(), new Uint8Array()];
    eth.sendMessage(GET_BLOCK_HEADERS, hasIds ? [intToBytes(REQUEST_ID), request] : request);
    await waitFor('headers', () => result.headers);
    await waitFor('a request', () => result.asked);
    result.status = { td: bytesToInt(result.status.td), network: bytesToInt(result.status.chainId) };
    say(`${argument.capability.name}/${result.version} with ${result.client}: ${result.headers.length} headers`);
    return result;
}

async function connect() {
    const rlpx = new RLPx(key, { capabilities: capabilities(), common, maxPeers: 5, timeout: 30_000 });
    let peer = null;
    const errors = [];
    rlpx.events.on('peer:added', (added) => (peer = added));
    rlpx.events.on('peer:error', (_, error) => errors.push(`${error}`));
    if (argument.mode === 'listen') {
        rlpx.listen(argument.port, '127.0.0.1');
    } else {
        await rlpx.connect({ id: hexToBytes(argument.node), address: '127.0.0.1', tcpPort: argument.port });
    }
    await waitFor('a peer', () => peer);
    const result = await talk(peer);
    // The other side ends the connection, after it has got all its answers.
    await waitFor('the end', () => (rlpx.getPeers().length === 0 ? true : null));
    return { ...result, errors };
}

async function discover() {
    const { port, udp } = argument;
    const endpoint = { address: '127.0.0.1', udpPort: port, tcpPort: port };
    // A node that does not answer in time is banned for five minutes, and a busy machine takes long.
    const dpt = new DPT(key, { endpoint, refreshInterval: 3000, timeout: 60_000 });
    dpt.events.on('error', (error) => say(`${error}`));
    let listens = null;
    dpt.events.on('listening', () => (listens = true));
    dpt.bind(port, '127.0.0.1');
    await waitFor('the socket', () => listens);
    const first = await dpt.addPeer({ address: '127.0.0.1', udpPort: udp, tcpPort: udp });
    assert.equal(bytesToHex(first.id), argument.node);
    await dpt.bootstrap(first);
    const others = () => dpt.getPeers().filter((peer) => bytesToHex(peer.id) !== bytesToHex(dpt.id));
    await waitFor('three nodes', () => (others().length >= 3 ? true : null));
    const ids = others().map((peer) => bytesToHex(peer.id));
    say(`found ${ids.length} nodes`);
    // The peer goes on answering until the test has what it needs.
    await waitFor('the end', () => (existsSync(argument.done) ? true : null));
    return { ids };
}

run(argument.mode === 'discover' ? discover : connect);
