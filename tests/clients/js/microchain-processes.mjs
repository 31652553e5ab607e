// The processes of a MicroChain's life: VNODEs and SCSs that a script starts, kills and starts again on the same data.

import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { assert, waitFor } from './common.mjs';

/// The part of a log that is kept, and the part that is shown when the script fails, in characters.
const [LOG_KEPT, LOG_SHOWN] = [200_000, 4_000];

/// A block every second on a machine that answers within 100 ms.
const [BLOCK_MS, WAIT_FACTOR] = [1000, 10];

/** Calls a JSON-RPC method at a URL. */
export async function rpc(at, method, ...params) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const answer = await fetch(at, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const { result, error } = await answer.json();
    if (error) throw new Error(`${method}: ${error.message}`);
    return result;
}

/** A process in a folder of its own. Killed when the script ends. */
class Program {
    static all = [];

    constructor({ name, program, home }) {
        Object.assign(this, { name, program, home, log: '', running: false });
        mkdirSync(home, { recursive: true });
        Program.all.push(this);
        process.on('exit', () => this.child?.kill('SIGKILL'));
    }

    /** Starts the program, and waits until it has printed `last`. Returns what it has printed. */
    async launch(args, last) {
        this.child = spawn(this.program, args, { cwd: this.home, stdio: ['ignore', 'pipe', 'pipe'] });
        let printed = '';
        this.running = true;
        this.child.stdout.on('data', (text) => (printed += text));
        this.child.stderr.on('data', (text) => (this.log = (this.log + text).slice(-LOG_KEPT)));
        this.child.on('exit', () => (this.running = false));
        await waitFor(`the start of ${this.name}`, () => {
            if (!this.running) throw new Error(`${this.name} has ended`);
            return printed.match(last);
        });
        return printed;
    }

    /** Returns how long it takes to answer, in milliseconds; 0 if it does not run. */
    async delay() {
        if (!this.running) return 0;
        const asked = Date.now();
        // Programs that are killed meanwhile, or start again, need no wait.
        await this.ping().catch(() => {});
        return Date.now() - asked;
    }

    async kill() {
        const ended = new Promise((resolve) => this.child.on('exit', resolve));
        this.child.kill('SIGKILL');
        await ended;
    }
}

/**
 * Has a VNODE make a block a second for ever. On a busy machine the next one waits for the answers of all programs and longer, so that
 * members which get no processor are not late for their turns in blocks.
 */
export async function makeBlocks(vnode) {
    for (;;) {
        const asked = Date.now();
        await vnode.call('evm_mine');
        const delays = await Promise.all(Program.all.map((one) => one.delay()));
        const pause = Math.max(BLOCK_MS, WAIT_FACTOR * Math.max(...delays));
        await new Promise((resolve) => setTimeout(resolve, Math.max(asked + pause - Date.now(), 0)));
    }
}

/** Writes the ends of all logs to the standard error. */
export function showLogs() {
    for (const { name, log } of Program.all) process.stderr.write(`log of ${name}:\n${log.slice(-LOG_SHOWN)}\n`);
}

/** A development VNODE with HTTP, a service for SCSs, and a payee. All stay the same when it is started again. */
export class Vnode extends Program {
    constructor({ port, service, via, args, ...process }) {
        super(process);
        Object.assign(this, { service, via, url: `http://127.0.0.1:${port}` });
        const settings = { SCSService: true, VnodeServiceCfg: service, VnodeBeneficialAddress: via };
        writeFileSync(`${this.home}/vnodeconfig.json`, JSON.stringify(settings));
        this.args = ['--dev', '--rpc', '--rpcport', `${port}`, '--rpcapi', 'mc,net,chain3,debug,vnode,admin,evm', '--nodiscover',
            '--nat', 'none', '--datadir', './data', ...args];
    }

    async start() {
        const printed = await this.launch(this.args, /\nmining /);
        // The funded accounts, with their keys: "(0) address … key".
        const lines = printed.split('\n').map((line) => line.trim().split(/\s+/)).filter(([first]) => first.startsWith('('));
        this.accounts = lines.map((words) => ({ address: words[1], key: words.at(-1) }));
        assert.equal(this.accounts.length, 10, printed);
        return this;
    }

    call(method, ...params) {
        return rpc(this.url, method, ...params);
    }

    ping() {
        return this.call('mc_blockNumber');
    }
}

/** An SCS behind a VNODE, with a block every `period` seconds. `args` are more arguments, for the next start. */
export class Server extends Program {
    constructor({ vnode, chainId, period, ...process }) {
        super(process);
        Object.assign(this, { vnode, period, args: [] });
        const settings = { VnodeServiceCfg: vnode.service, VnodechainId: chainId, BondLimit: 1, ReWardMin: 0.0001, ReconnectInterval: 1 };
        writeFileSync(`${this.home}/userconfig.json`, JSON.stringify(settings));
    }

    async start() {
        const args = ['--rpc', '--rpcport', '0', '--lightkdf', '--period', `${this.period}`, '--verbosity', '4', ...this.args];
        const printed = await this.launch(args, /endpoint +http:\S+/);
        this.id = printed.match(/SCS id +(0x\w+)/)[1].toLowerCase();
        this.url = printed.match(/endpoint +(http:\S+)/)[1];
        return this;
    }

    call(method, ...params) {
        return rpc(this.url, `scs_${method}`, ...params);
    }

    ping() {
        return this.call('getMicroChainList');
    }
}
