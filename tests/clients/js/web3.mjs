// web3 with the eth_ aliases: reads, a transfer signed by the script, a contract with its event.

import { Web3 } from 'web3';
import { argument, assert, run, say } from './common.mjs';

const { url, key, to, value, counter } = argument;

run(async () => {
    const web3 = new Web3(url);
    web3.eth.transactionPollingInterval = 200;
    web3.eth.transactionConfirmationBlocks = 1;
    const account = web3.eth.accounts.wallet.add(key).get(0).address;
    assert.equal(await web3.eth.getChainId(), 100n);
    assert.equal(await web3.eth.net.getId(), 100n);
    const block = await web3.eth.getBlock('latest');
    assert.ok(block.number >= 1n, 'a whole block');
    const gasPrice = await web3.eth.getGasPrice();
    say(`block ${block.number}, ${account} has ${await web3.eth.getBalance(account)}`);

    const receipt = await web3.eth.sendTransaction({ from: account, to, value, gas: 21000, gasPrice, type: 0 });
    say(`sent ${value} to ${to}: ${receipt.transactionHash} in block ${receipt.blockNumber}`);

    const contract = new web3.eth.Contract(counter.abi);
    const options = { from: account, gas: 500000, gasPrice, type: 0 };
    const deployed = await contract.deploy({ data: counter.bytecode }).send(options);
    const first = await deployed.methods.get().call();
    const changed = await deployed.methods.set(7).send(options);
    const second = await deployed.methods.get().call();
    say(`created ${deployed.options.address}: get() was ${first}, set 7, now is ${second}`);
    const past = await deployed.getPastEvents('Changed', { fromBlock: 0, toBlock: 'latest', filter: { by: account } });
    assert.deepEqual(past.map(({ transactionHash }) => transactionHash), [changed.transactionHash]);
    say(`found ${past.length} event`);

    return {
        hash: receipt.transactionHash,
        status: receipt.status,
        contract: deployed.options.address,
        first,
        second,
        event: changed.events.Changed.returnValues,
        balance: await web3.eth.getBalance(to),
    };
});
