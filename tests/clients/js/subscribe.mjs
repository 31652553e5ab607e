// ethers over a WebSocket: notifications of new blocks and of events of a contract.

import { Contract, ContractFactory, WebSocketProvider } from 'ethers';
import { argument, assert, run, say, waitFor } from './common.mjs';

const { url, counter, value } = argument;

run(async () => {
    const provider = new WebSocketProvider(url);
    const blocks = [];
    await provider.on('block', (number) => blocks.push(number));

    // The node signs the transaction, so its hash is not the one that the library would compute.
    const [from] = await provider.send('eth_accounts', []);
    const factory = new ContractFactory(counter.abi, counter.bytecode);
    const { data } = await factory.getDeployTransaction();
    const creation = await provider.send('eth_sendTransaction', [{ from, data, gas: '0x7a120' }]);
    const { contractAddress } = await waitFor('the creation', () => provider.getTransactionReceipt(creation));
    const contract = new Contract(contractAddress, counter.abi, provider);
    const values = [];
    await contract.on('Changed', (by, changed) => values.push(changed));
    const call = await contract.set.populateTransaction(value);
    await provider.send('eth_sendTransaction', [{ from, to: contractAddress, data: call.data, gas: '0x186a0' }]);
    await waitFor('the event', () => values[0]);
    await waitFor('two blocks', () => (blocks.length >= 2 ? blocks : null));
    for (let index = 1; index < blocks.length; index += 1) {
        assert.equal(blocks[index], blocks[index - 1] + 1, 'every block in order');
    }
    await provider.destroy();
    say(`told of blocks ${blocks.join(', ')} and of the event with ${values[0]}`);
    return { blocks, value: values[0] };
});
