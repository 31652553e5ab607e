// Calls every property and method of chain3 that belongs to the interface, module by module, and
// collects the results as JSON.

import { promisify } from 'node:util';
import { assert, say, waitFor } from './common.mjs';
import { members } from './chain3-members.mjs';

const PASSWORD = 'a password';
const MESSAGE = '0x61206d657373616765';
const NO_WORK = ['0x0000000000000001', `0x${'11'.repeat(32)}`, `0x${'22'.repeat(32)}`];
/** The first storage slot of the contract. */
const SLOT = 0;
const GAS_PRICE = 20_000_000_000;

/** Big numbers of the library as QUANTITY, because JSON would round them. */
function plain(value) {
    if (value === undefined || value === null || typeof value !== 'object') return value ?? null;
    if (value._isBigNumber) return `0x${value.toString(16)}`;
    if (Array.isArray(value)) return value.map(plain);
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
}

export class Walk {
    constructor(chain3, recorder, argument) {
        this.chain3 = chain3;
        this.recorder = recorder;
        this.argument = argument;
        this.found = {};
        this.served = [];
    }

    /** Calls a member with a callback. Records that it was used, and its result. */
    async use(member, ...params) {
        const [module, name] = member.split('.');
        const object = this.chain3[module];
        this.recorder.used.add(member);
        const result = await promisify(object[name].bind(object))(...params);
        this.found[member] = plain(result);
        return result;
    }

    /** Calls a method by name, through the request manager of the library. */
    ask(method, ...params) {
        const manager = this.chain3._requestManager;
        return promisify(manager.sendAsync.bind(manager))({ method, params });
    }

    mined(hash) {
        return waitFor(`receipt of ${hash}`, () => this.use('mc.getTransactionReceipt', hash));
    }

    /** Reads each property as documented, `chain3.mc.coinbase`, and by its getter function. */
    async properties() {
        let count = 0;
        for (const [member, { kind, getter }] of members()) {
            if (kind !== 'property') continue;
            const [module, name] = member.split('.');
            await this.use(`${module}.${getter}`);
            this.recorder.used.add(member);
            if (this.argument.over === 'ipc') {
                assert.throws(() => this.chain3[module][name], /Synchronous requests are not supported/, member);
            } else {
                this.found[member] = plain(this.chain3[module][name]);
            }
            count += 1;
        }
        say(`read ${count} properties, with ${this.argument.over === 'ipc' ? '' : 'and without '}a callback`);
    }

    async state() {
        const { chain3, contract } = this;
        const { account } = this.argument;
        const balance = await this.use('mc.getBalance', account);
        // The library fails for an address with mixed letters.
        const iban = chain3.mc.iban.fromAddress(account.toLowerCase());
        this.recorder.used.add('mc.iban');
        assert.equal(`0x${iban.address()}`, account.toLowerCase(), 'an address survives its other form');
        assert.ok((await this.use('mc.getBalance', iban.toString())).eq(balance), 'the same account by its IBAN');

        this.recorder.used.add('mc.defaultBlock');
        chain3.mc.defaultBlock = 'earliest';
        this.found.funded = plain(await this.use('mc.getBalance', account));
        chain3.mc.defaultBlock = 'latest';
        await this.use('mc.getTransactionCount', account, 'latest');
        await this.use('mc.getCode', contract.address, 'latest');
        await this.use('mc.getStorageAt', contract.address, SLOT, 'latest');
        await this.use('mc.call', { to: contract.address, data: contract.get.getData() }, 'latest');
        say(`read balance, nonce, code, storage and a call's answer; ${account} had ${this.found.funded} in block 0`);
    }

    async sending() {
        const { account, to, value } = this.argument;
        const transaction = () => ({ from: account, to, value, gas: 21000, gasPrice: GAS_PRICE });
        await this.use('mc.estimateGas', transaction());
        this.transfer = await this.use('mc.sendTransaction', transaction());
        this.receipt = await this.mined(this.transfer);
        await this.use('mc.getTransaction', this.transfer);
        say(`sent ${value} to ${to}: block ${this.receipt.blockNumber}, gas ${this.receipt.gasUsed}`);

        this.recorder.used.add('mc.defaultAccount');
        this.chain3.mc.defaultAccount = account;
        const { from, ...unnamed } = transaction();
        const signed = await this.use('mc.signTransaction', unnamed);
        this.chain3.mc.defaultAccount = undefined;
        const hash = await this.use('mc.sendRawTransaction', signed.raw);
        assert.equal(hash, signed.tx.hash, 'what was signed is what was sent');
        await this.mined(hash);
        say(`had the node sign another for ${from} and sent it raw: ${hash}`);
    }

    /** A block by hash and by number, and its transactions; both names of each method. */
    async blocks() {
        const { blockHash, blockNumber, transactionIndex } = this.receipt;
        for (const block of [blockHash, blockNumber]) {
            await this.use('mc.getBlock', block, false);
            const whole = await this.use('mc.getBlock', block, true);
            assert.equal(whole.hash, blockHash);
            const count = await this.use('mc.getBlockTransactionCount', block);
            assert.equal(count, whole.transactions.length);
            assert.equal(await this.use('mc.getBlockUncleCount', block), whole.uncles.length);
            assert.equal(await this.use('mc.getUncle', block, whole.uncles.length), null, 'no uncle past the last');
            const transaction = await this.use('mc.getTransactionFromBlock', block, transactionIndex);
            assert.equal(transaction.hash, this.transfer);
            assert.equal(whole.transactions[transactionIndex].hash, this.transfer);
        }
        say(`read block ${blockNumber} by hash and by number, with its transactions and uncles`);
    }

    async mining() {
        const work = await this.use('mc.getWork');
        assert.equal(await this.use('mc.submitWork', ...NO_WORK), false, 'no work of the node');
        say(`got work ${work[0]}, and a solution of other work refused`);
    }

    async personal() {
        const { account, to, rawKey } = this.argument;
        const made = await this.use('personal.newAccount', PASSWORD);
        const gift = { from: account, to: made, value: GAS_PRICE * 100_000, gas: 21000, gasPrice: GAS_PRICE };
        await this.mined(await this.use('mc.sendTransaction', gift));
        const onward = { from: made, to, value: 1, gas: 21000, gasPrice: GAS_PRICE };
        await assert.rejects(this.use('mc.sendTransaction', { ...onward }), /authentication needed/, 'a locked account');
        const receipt = await this.mined(await this.use('personal.sendTransaction', { ...onward }, PASSWORD));
        assert.equal(receipt.from, made);
        assert.equal(await this.use('personal.unlockAccount', made, PASSWORD, 60), true);
        await this.mined(await this.use('mc.sendTransaction', { ...onward }));
        assert.equal(await this.use('personal.lockAccount', made), true);
        await assert.rejects(this.use('mc.sign', made, MESSAGE), /authentication needed/, 'locked again');
        const signature = await this.use('personal.sign', MESSAGE, made, PASSWORD);
        assert.equal(await this.use('personal.ecRecover', MESSAGE, signature), made);
        const imported = await this.use('personal.importRawKey', rawKey.slice(2), PASSWORD);
        const accounts = await this.use('personal.getListAccounts');
        for (const one of [made, imported]) assert.ok(accounts.includes(one), one);
        say(`made ${made}, sent from it locked, unlocked and locked again; imported ${imported}`);
    }

    /** The pool, with a transaction whose earlier nonces are missing. */
    async pool() {
        const content = await this.use('txpool.getContent');
        const inspect = await this.use('txpool.getInspect');
        const status = await this.use('txpool.getStatus');
        const waiting = Object.keys(content.queued);
        assert.equal(waiting.length, 1, 'one account waits');
        assert.deepEqual(Object.keys(inspect.queued), waiting);
        say(`the pool: ${Number(status.pending)} pending, ${Number(status.queued)} queued of ${waiting}`);
    }

    /** Members that make several calls: registrars at fixed addresses, watching for syncing. */
    async composites() {
        const { chain3, recorder } = this;
        for (const name of ['namereg', 'icapNamereg']) {
            recorder.used.add(`mc.${name}`);
            const registrar = chain3.mc[name]();
            assert.equal(await promisify(registrar.owner.call)('0x00'), '0x', 'no registrar on this network');
        }
        const { account, to } = this.argument;
        recorder.used.add('mc.sendIBANTransaction');
        const receiver = chain3.mc.iban.fromAddress(to).toString();
        const send = promisify(chain3.mc.sendIBANTransaction);
        await assert.rejects(send(account, receiver, 1), /invalid argument/, 'no creation without code');
        recorder.used.add('mc.isSyncing');
        recorder.answered.delete('mc_syncing');
        const watch = chain3.mc.isSyncing();
        await waitFor('a look at syncing', () => (recorder.answered.has('mc_syncing') ? true : null));
        watch.stopWatching();
        say('asked both registrars, had a transaction without receiver refused, watched for syncing');
    }

    /** Methods of the interface for which the library has no member. */
    async beyond() {
        const { chain3, found, contract } = this;
        const { Method } = chain3._extend;
        const subnet = `0x${'71'.repeat(20)}`;
        const head = await this.use('mc.getBlockNumber');
        chain3._extend({
            property: 'beyond',
            methods: [
                new Method({ name: 'sha3', call: 'chain3_sha3', params: 1 }),
                new Method({ name: 'logs', call: 'mc_getLogs', params: 1 }),
                new Method({ name: 'addSubnet', call: 'admin_addSubnetP2P', params: 2 }),
                new Method({ name: 'subnets', call: 'admin_getSubnetP2PList' }),
                new Method({ name: 'removeSubnet', call: 'admin_removeSubnetP2P', params: 2 }),
            ],
        });
        const use = (name, ...params) => promisify(chain3.beyond[name])(...params);
        assert.equal(await use('sha3', MESSAGE), chain3.sha3(MESSAGE, { encoding: 'hex' }));
        found.logs = await use('logs', { fromBlock: '0x0', address: contract.address });
        assert.equal(await use('addSubnet', subnet, head + 100), null);
        const joined = await use('subnets');
        assert.deepEqual(joined.map((one) => one.subnet), [subnet]);
        assert.equal(await use('removeSubnet', subnet, head), true);
        assert.deepEqual(await use('subnets'), []);
        const { methods } = await this.ask('rpc.discover');
        this.served = methods.map(({ name }) => name);
        say(`asked for ${found.logs.length} logs, joined and left ${subnet}; the node has ${methods.length} methods`);
    }

    /** Calls that come last, because they close the listener that the script may use. */
    async administration() {
        const { over, peer, host, port, apis } = this.argument;
        assert.ok(this.chain3.isConnected(), 'connected');
        assert.equal(await this.use('admin.addPeer', peer), true);
        await assert.rejects(this.use('admin.startRPC', host, port, '', apis), /HTTP RPC listener already running/);
        // Not in the interface; called if the node has them.
        const more = { 'net.getVnodes': [], 'admin.startWS': [host, 0, '', apis], 'admin.stopWS': [] };
        const known = members();
        for (const [member, params] of Object.entries(more)) {
            if (this.served.includes(known.get(member).methods[0])) await this.use(member, ...params);
        }
        assert.equal(await this.use('admin.stopRPC'), true);
        assert.equal(this.chain3.isConnected(), over === 'ipc', 'only HTTP has ended');
        if (over === 'ipc') assert.equal(await this.use('admin.startRPC', host, port, '', apis), true);
        say(`added a peer, stopped the HTTP listener${over === 'ipc' ? ' and started it again' : ''}`);
    }
}
