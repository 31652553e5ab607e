// Signing with chain3: 12-field transactions with a key that the node does not have, and messages that
// are signed on one side and recovered on the other.

import { assert, say } from './common.mjs';

const MESSAGE = '0xdeadbeef';
const GAS_PRICE = 20_000_000_000;

export async function signing(walk, { account, key, signer, to, counter }) {
    const { chain3 } = walk;
    const network = await walk.use('version.getNetwork');
    const hex = (number) => chain3.toHex(number);

    const known = { gasPrice: hex(GAS_PRICE), gasLimit: '0x7a120', chainId: hex(network), shardingFlag: '0x0' };
    const sign = (nonce, fields) => {
        const raw = chain3.signTransaction({ nonce: hex(nonce), value: '0x0', data: '0x', ...known, ...fields }, key);
        assert.equal(typeof raw, 'string', `signing failed: ${raw}`);
        return raw;
    };
    const send = async (raw) => {
        const hash = await walk.use('mc.sendRawTransaction', raw);
        assert.equal(hash, chain3.sha3(raw, { encoding: 'hex' }), 'the hash is that of the 12-field form');
        return hash;
    };

    const gift = { from: account, to: signer, value: GAS_PRICE * 2_000_000, gas: 21000, gasPrice: GAS_PRICE };
    await walk.mined(await walk.use('mc.sendTransaction', gift));
    const nonce = await walk.use('mc.getTransactionCount', signer);
    const transfer = await send(sign(nonce, { to, value: '0x5' }));
    const creation = await send(sign(nonce + 1, { data: counter.bytecode }));
    await walk.mined(transfer);
    const { contractAddress } = await walk.mined(creation);
    const waiting = await send(sign(nonce + 5, { to, value: '0x1' }));
    say(`${signer} signed a transfer, the creation of ${contractAddress}, and one that waits for others`);

    const byNode = await walk.use('mc.sign', account, MESSAGE);
    assert.equal(chain3.recoverPersonalSignature(MESSAGE, byNode), account.toLowerCase());
    assert.ok(chain3.verifyMcSignature(MESSAGE, byNode, account), "the node's signature is good");
    assert.ok(!chain3.verifyMcSignature(MESSAGE, byNode, to), 'and of nobody else');
    const byLibrary = chain3.signMcMessage(MESSAGE, key);
    // On the development network personal_ecRecover is for Ethereum's label, so the library recovers.
    const recovered = chain3.recoverPersonalSignature(MESSAGE, byLibrary);
    assert.equal(recovered, signer.toLowerCase());
    say(`recovered who signed a message: ${account} and ${recovered}`);
    return { nonce, transfer, creation, contractAddress, waiting, byNode, byLibrary };
}
