// Makes the transactions of scene.mjs on a node, and returns what the node says of all blocks.

import { argument, run } from './common.mjs';
import { call, scene } from './scene.mjs';

const { url } = argument;

run(async () => {
    await scene(url);
    const head = Number(await call(url, 'eth_blockNumber', []));
    const blocks = [];
    for (let number = 0; number <= head; number += 1) {
        const at = `0x${number.toString(16)}`;
        blocks.push({
            block: await call(url, 'eth_getBlockByNumber', [at, true]),
            receipts: await call(url, 'eth_getBlockReceipts', [at]),
            traces: number > 0 ? await call(url, 'trace_block', [at]) : [],
        });
    }
    return blocks;
});
