// The compiler's answer for the Solidity sources in `contracts/`: what `contracts/compiled.json` must hold.
//
// The argument names the folder. The result has the compiler, the settings, and for each contract that can
// be created its ABI and its creation code, and in `deployed` the code that it then has. The compiler is inside its npm package; nothing is downloaded.

import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { argument, assert, run, say } from './common.mjs';

const SETTINGS = { optimizer: { enabled: true, runs: 200 }, evmVersion: 'byzantium' };
// ABIEncoderV2 is experimental in this compiler. `have` of DappBase keeps the mutability of the public ABI.
const EXPECTED_WARNINGS = [/Experimental features are turned on/, /restricted to pure\s+function have\(/];

run(async () => {
    const { folder } = argument;
    const names = readdirSync(folder).filter((name) => name.endsWith('.sol'));
    const sources = Object.fromEntries(names.map((name) => [name, { content: readFileSync(join(folder, name), 'utf8') }]));
    const settings = { ...SETTINGS, outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object', 'evm.deployedBytecode.object'] } } };

    // The compiler takes over the handlers of failures of the process.
    const before = ['uncaughtException', 'unhandledRejection'].map((event) => [event, process.listeners(event)]);
    const solc = createRequire(import.meta.url)('solc');
    for (const [event, listeners] of before) {
        for (const listener of process.listeners(event)) {
            if (!listeners.includes(listener)) process.removeListener(event, listener);
        }
    }

    const input = JSON.stringify({ language: 'Solidity', sources, settings });
    const output = JSON.parse(solc.compileStandardWrapper(input));
    const faults = (output.errors ?? []).map(({ formattedMessage }) => formattedMessage);
    const unexpected = faults.filter((text) => !EXPECTED_WARNINGS.some((expected) => expected.test(text)));
    assert.deepEqual(unexpected, [], 'the compiler has no complaint');

    const [contracts, deployed] = [{}, {}];
    for (const compiled of Object.values(output.contracts)) {
        for (const [name, { abi, evm }] of Object.entries(compiled)) {
            if (evm.bytecode.object === '') continue;
            contracts[name] = { abi, bytecode: `0x${evm.bytecode.object}` };
            deployed[name] = `0x${evm.deployedBytecode.object}`;
        }
    }
    say(`compiled ${names.length} files into ${Object.keys(contracts).length} contracts with ${solc.version()}`);
    const sorted = Object.fromEntries(Object.entries(contracts).sort(([a], [b]) => (a < b ? -1 : 1)));
    return { compiler: solc.version(), settings: SETTINGS, contracts: sorted, deployed };
});
