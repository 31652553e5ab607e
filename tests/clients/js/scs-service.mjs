// An SCS made from the table of messages: @grpc/grpc-js with a service definition of our own. It shakes hands,
// hears pings, a notice, a transaction and a broadcast, and makes the six unary calls.
//
// Argument: {service, url, chain, ids, chainId, account, via}. The result has what it got, as hex.

import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';
import { RLP } from '@ethereumjs/rlp';
import { argument, assert, run, say, waitFor } from './common.mjs';

const { service, url, chain, ids, chainId, account, via } = argument;
const definition = loader.loadSync('vnode_scs.proto', { keepCase: true, longs: String, defaults: true });
const { moac } = grpc.loadPackageDefinition(definition);

const bytes = (hex) => Buffer.from(hex.replace(/^0x/, ''), 'hex');
const hex = (buffer) => `0x${Buffer.from(buffer).toString('hex')}`;
const number = (value) => {
    const four = Buffer.alloc(4);
    four.writeUInt32BE(value);
    return four;
};
const text = (payload) => Buffer.from(RLP.decode(payload)).toString();

async function rpc(method, ...params) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const { result, error } = await answer.json();
    if (error) throw new Error(error.message);
    return result;
}

/** A stream with all messages that have come on it. */
class Stream {
    constructor() {
        this.client = new moac.Vnode(service, grpc.credentials.createInsecure());
        this.call = this.client.ScsPush();
        this.heard = [];
        this.error = null;
        this.call.on('data', (message) => this.heard.push(message));
        this.call.on('error', (error) => (this.error = error));
    }

    /** The first message of this kind for which `test` holds. */
    message(kind, test = () => true) {
        const fits = (message) => message.type.readUInt32BE() === kind && test(message);
        return waitFor(`a message of type ${kind}`, () => this.heard.find(fits));
    }

    async shakeHands(id) {
        const payload = RLP.encode(['join', 'no key', 10, chainId]);
        this.call.write({ requestid: Buffer.from('hello'), requestflag: true, type: number(4), scsid: Buffer.from(id), msghash: payload });
        return this.message(4);
    }
}

function unary(client, method, request) {
    return new Promise((resolve, reject) =>
        client[method]({ requestid: 77, ...request }, (error, reply) => (error ? reject(error) : resolve(reply))),
    );
}

run(async () => {
    const result = {};
    const scs = new Stream();
    const answer = await scs.shakeHands(ids[0]);
    result.handshake = { text: text(answer.msghash), sender: hex(answer.sender), flag: answer.requestflag };
    say(`handshake: ${result.handshake.text}`);

    const heads = () => scs.heard.filter((message) => message.type.readUInt32BE() === 5).map((ping) => hex(RLP.decode(ping.msghash)[0]));
    result.heads = await waitFor('two pings', () => (heads().length >= 2 ? heads() : null));
    say(`heads: ${result.heads}`);

    // The contract tells 0x0d what it is called with: a word with the sort of notice.
    const word = `0x${'0'.repeat(63)}9`;
    const notifier = await rpc('mc_sendTransaction', { from: account, to: chain, data: word, gas: '0x186a0' });
    const notice = await scs.message(3);
    assert.equal(hex(notice.msghash), notifier);
    result.notice = { status: notice.status.readUInt32BE(), chain: hex(notice.subchainid), receiver: hex(notice.receiver), requestid: notice.requestid.toString() };
    say(`notice: ${result.notice.status}`);

    // A transaction of the MicroChain, sent by JSON-RPC.
    const flagged = { from: account, to: chain, data: '0x0102', shardingFlag: '0x1', via, nonce: '0x7', gas: '0x0', gasPrice: '0x0' };
    const hash = await rpc('mc_sendTransaction', flagged);
    const call = await scs.message(1);
    const fields = RLP.decode(call.msghash).map(hex);
    assert.equal(fields.length, 12);
    result.call = { hash, rlp: hex(call.msghash), sender: hex(call.sender), receiver: hex(call.receiver), flag: fields[7], via: fields[8] };
    result.known = await rpc('mc_sendRawTransaction', hex(call.msghash)).catch((error) => error.message);
    result.found = await rpc('mc_getTransactionByHash', hash);
    say(`transaction: ${hash}`);

    // Another SCS sends a block over a second stream, without a handshake on it.
    const other = new Stream();
    await other.shakeHands(ids[1]);
    const sending = new Stream();
    sending.call.write({
        requestid: Buffer.from(`${ids[1]}-1`), requestflag: true, type: number(2), status: number(0),
        scsid: Buffer.from(ids[1]), subchainid: Buffer.concat([Buffer.from([0x94]), bytes(chain)]), msghash: Buffer.from('a block'),
    });
    const block = await scs.message(2);
    result.broadcast = { content: block.msghash.toString(), echoed: other.heard.some((message) => message.type.readUInt32BE() === 2) };
    say('broadcast');

    // A message that ends the published VNODE.
    const bad = new Stream();
    bad.call.write({ requestid: Buffer.from('x'), type: number(2), subchainid: Buffer.from('y') });
    const error = await waitFor('an error', () => bad.error);
    result.refused = { code: error.code, details: error.details };

    const client = scs.client;
    const info = await unary(client, 'AccountInfo', { addr: bytes(account) });
    result.account = RLP.decode(info.replybody).map(hex);
    const contract = await unary(client, 'ChainInfo', { consensusaddr: bytes(chain), request: [{ reqtype: 0 }] });
    result.contract = contract.replybody.toString();
    const raw = await rpc('mc_signTransaction', { from: account, to: ids[0], value: '0x5', gas: '0x5208', gasPrice: '0x1', nonce: await rpc('mc_getTransactionCount', account, 'pending') });
    const sent = await unary(client, 'RemoteCall', { data: bytes(raw.raw ?? raw) });
    result.sent = text(sent.replybody);
    result.paid = await waitFor('the payment', async () => {
        const balance = await rpc('mc_getBalance', ids[0], 'latest');
        return balance === '0x0' ? null : balance;
    });
    result.repeated = await unary(client, 'RemoteCall', { data: bytes(raw.raw ?? raw) }).catch((error) => error.details);
    const role = await unary(client, 'ScbPublicCall', { contractaddr: bytes(chain), data: bytes(`0x50859fd9${'0'.repeat(24)}${ids[0].slice(2)}`) });
    result.role = hex(role.replybody);
    const place = { sender: bytes(ids[0]), blocknumber: 5, subchainid: bytes(chain) };
    const kept = await unary(client, 'UploadBlock', { ...place, blockhash: Buffer.from('hash'), blockdata: Buffer.from('the block') });
    assert.equal(kept.requestid, 77);
    result.kept = text(kept.replybody);
    result.fetched = (await unary(client, 'DownloadBlock', place)).replybody.toString();
    result.gone = (await unary(client, 'DownloadBlock', place)).replybody.toString();
    return result;
});
