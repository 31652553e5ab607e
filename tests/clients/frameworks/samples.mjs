// Runs the sample projects of Hardhat and of Foundry against a node. Both are taken from the packages as they are.
// Usage: samples.mjs '{"url": ..., "folder": an empty folder}'. It prints what passed and failed as JSON.

import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const { url, folder } = JSON.parse(process.argv[2]);
const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(import.meta.url);

/** Runs a program that must succeed. Returns its output. */
function run(program, words, options) {
    const { status, stdout, stderr, error } = spawnSync(program, words, { encoding: 'utf8', timeout: 200_000, ...options });
    const text = `${stdout ?? ''}${stderr ?? ''}`;
    if (error || status !== 0) throw new Error(`${program} ${words.join(' ')}: ${error ?? status}\n${text}`);
    return text;
}

function count(text, pattern) {
    return Number(pattern.exec(text)?.[1] ?? 0);
}

function hardhat() {
    const project = join(folder, 'hardhat');
    const sample = join(dirname(require.resolve('hardhat/package.json')), 'sample-projects', 'javascript');
    for (const part of ['contracts', 'test']) cpSync(join(sample, part), join(project, part), { recursive: true });
    symlinkSync(join(here, 'node_modules'), join(folder, 'node_modules'));
    const config = join(here, 'hardhat.config.cjs');
    const words = [join(here, 'node_modules', '.bin', 'hardhat'), '--config', config, 'test', '--network', 'vnode'];
    const text = run(process.execPath, words, {
        cwd: here,
        env: { ...process.env, SAMPLE_FOLDER: project, NODE_URL: url, HARDHAT_DISABLE_TELEMETRY_PROMPT: 'true', CI: 'true' },
    });
    return { passed: count(text, /(\d+) passing/), failed: count(text, /(\d+) failing/) };
}

/** The compiler as the program that forge starts. */
function compiler() {
    const path = join(folder, 'solc');
    const script = `#!/usr/bin/env node
const { readSync, writeSync } = require('node:fs');
const solc = require(${JSON.stringify(require.resolve('solc'))});
const version = 'solc, the solidity compiler commandline interface\\nVersion: ' + solc.version() + '\\n';
const text = process.argv.includes('--version') ? version : solc.compile(readInput());
function readInput() {
    const parts = [];
    for (;;) {
        const part = Buffer.alloc(65536);
        try {
            const length = readSync(0, part);
            if (length === 0) return Buffer.concat(parts).toString();
            parts.push(part.subarray(0, length));
        } catch (error) {
            if (error.code !== 'EAGAIN') throw error;
        }
    }
}
let rest = Buffer.from(text);
while (rest.length > 0) {
    try {
        rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
        if (error.code !== 'EAGAIN') throw error;
    }
}
`;
    writeFileSync(path, script);
    chmodSync(path, 0o755);
    return path;
}

async function forge() {
    const system = `${process.platform === 'win32' ? 'win32' : process.platform}-${{ x64: 'amd64', arm64: 'arm64' }[process.arch]}`;
    const program = join(dirname(require.resolve(`@foundry-rs/forge-${system}/package.json`)), 'bin', 'forge');
    const env = { ...process.env, HOME: folder, FOUNDRY_DISABLE_NIGHTLY_WARNING: '1' };
    run(program, ['init', 'foundry', '--no-git', '--offline'], { cwd: folder, env });
    const project = join(folder, 'foundry');
    for (const file of ['Test.sol', 'Script.sol']) cpSync(join(here, file), join(project, 'lib', 'forge-std', 'src', file));
    const compile = ['--use', compiler(), '--evm-version', 'petersburg', '--offline'];
    const tests = run(program, ['test', ...compile, '--fork-url', url], { cwd: project, env });
    const sender = (await call('eth_accounts', []))[0];
    const words = ['script', 'script/Counter.s.sol', ...compile, '--rpc-url', url, '--broadcast', '--unlocked', '--sender', sender, '--legacy'];
    run(program, words, { cwd: project, env });
    const log = JSON.parse(readFileSync(join(project, 'broadcast', 'Counter.s.sol', '31337', 'run-latest.json')));
    const receipt = await call('eth_getTransactionReceipt', [log.transactions[0].hash]);
    return {
        passed: count(tests, /(\d+) tests? passed/),
        failed: count(tests, /passed, (\d+) failed/),
        deployed: receipt.status === '0x1' && (await call('eth_getCode', [receipt.contractAddress, 'latest'])).length > 100,
    };
}

async function call(method, params) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    const { error, result } = await answer.json();
    if (error) throw new Error(`${method}: ${JSON.stringify(error)}`);
    return result;
}

mkdirSync(folder, { recursive: true });
console.log(JSON.stringify({ hardhat: hardhat(), foundry: await forge() }));
