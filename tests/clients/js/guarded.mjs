// ethers with a bearer token, over HTTPS and over an encrypted WebSocket, with a certificate that only this
// script trusts.

import https from 'node:https';
import { FetchRequest, JsonRpcProvider, WebSocketProvider } from 'ethers';
import WebSocket from 'ws';
import { argument, assert, run, say, waitFor } from './common.mjs';

const { http, ws, ca, token } = argument;

function provider(header) {
    const request = new FetchRequest(http);
    request.getUrlFunc = FetchRequest.createGetUrlFunc({ agent: new https.Agent({ ca }) });
    if (header) request.setHeader('Authorization', header);
    return new JsonRpcProvider(request, 100n, { staticNetwork: true, batchMaxCount: 1 });
}

/** The status with which the node refuses a WebSocket. */
function refusal(headers) {
    return new Promise((resolve, reject) => {
        const socket = new WebSocket(ws, { ca, headers });
        socket.on('unexpected-response', (request, response) => {
            resolve(response.statusCode);
            request.destroy();
        });
        socket.on('open', () => reject(new Error('a WebSocket without a token')));
        socket.on('error', () => {});
    });
}

run(async () => {
    const chainId = await provider(`Bearer ${token}`).send('eth_chainId', []);
    const refused = await provider().send('eth_chainId', []).then(
        () => 200,
        (error) => error.response?.statusCode ?? error.info?.responseStatus ?? String(error),
    );
    say(`https: chain ${chainId}; without a token: ${refused}`);
    const refusedWs = await refusal({});
    const headers = { Authorization: `Bearer ${token}` };
    const live = new WebSocketProvider(() => new WebSocket(ws, { ca, headers }), 100n);
    let blocks = 0;
    await live.on('block', () => (blocks += 1));
    await waitFor('a block over wss', () => (blocks > 0 ? true : null));
    assert.equal(await live.send('eth_chainId', []), chainId);
    say(`wss: heard of a block; without a token: ${refusedWs}`);
    await live.destroy();
    return { chainId, refused, refusedWs, heard: blocks > 0 };
});
