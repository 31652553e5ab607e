// ethers through the eth_ aliases: reads, a transfer signed here, a contract with its event.

import { Contract, ContractFactory, JsonRpcProvider, Transaction, Wallet } from 'ethers';
import { argument, assert, run, waitFor } from './common.mjs';

const { url, key, to, value, counter } = argument;

run(async () => {
    const provider = new JsonRpcProvider(url);
    provider.pollingInterval = 200;
    const wallet = new Wallet(key, provider);
    assert.equal((await provider.getNetwork()).chainId, 100n);
    const block = await provider.getBlock('latest');
    assert.ok(block.number >= 1 && /^0x[0-9a-f]{64}$/.test(block.hash), 'a whole block');
    const balance = await provider.getBalance(wallet.address);
    assert.ok(balance > BigInt(value), 'a funded account');

    const request = await wallet.populateTransaction({ to, value: BigInt(value) });
    const raw = await wallet.signTransaction(request);
    assert.equal(Transaction.from(raw).type, 0, 'without a base fee, ethers signs the 9-field form');
    const hash = await provider.send('eth_sendRawTransaction', [raw]);
    const receipt = await waitFor('the receipt', () => provider.getTransactionReceipt(hash));
    // The chain stores a 12-field form with a hash of its own; the library's hash finds it too.
    const predicted = await provider.getTransactionReceipt(Transaction.from(raw).hash);
    assert.equal(predicted?.blockHash, receipt.blockHash, 'found by the hash of nine fields');

    const factory = new ContractFactory(counter.abi, counter.bytecode, wallet);
    const creation = await wallet.signTransaction(
        await wallet.populateTransaction(await factory.getDeployTransaction()),
    );
    const creationHash = await provider.send('eth_sendRawTransaction', [creation]);
    const created = await waitFor('the creation', () => provider.getTransactionReceipt(creationHash));
    const contract = new Contract(created.contractAddress, counter.abi, wallet);
    const first = await contract.get();
    const call = await wallet.signTransaction(
        await wallet.populateTransaction(await contract.set.populateTransaction(7)),
    );
    const callHash = await provider.send('eth_sendRawTransaction', [call]);
    const changed = await waitFor('the call', () => provider.getTransactionReceipt(callHash));
    const event = contract.interface.parseLog(changed.logs[0]);
    assert.equal(event.name, 'Changed');

    return {
        hash,
        status: receipt.status,
        gasUsed: receipt.gasUsed,
        gasPrice: request.gasPrice,
        contract: created.contractAddress,
        first,
        second: await contract.get(),
        event: { by: event.args.by, value: event.args.value },
        balance: await provider.getBalance(to),
        whole: await sendsByItself(wallet, to),
    };
});

/** The library's usual way, which compares the node's hash with its own. */
async function sendsByItself(wallet, receiver) {
    try {
        const sent = await wallet.sendTransaction({ to: receiver, value: 1n });
        return { hash: sent.hash };
    } catch (error) {
        return { error: error.message };
    }
}
