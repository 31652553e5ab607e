// chain3, the network's own library, with a node, over HTTP or over the local socket: all members of the
// interface, then contracts, events, batches and signing as programs use them.
//
// Faults of the library itself that no node can correct, and what this script does instead:
//
// | what                              | why it cannot work                          | instead            |
// |-----------------------------------|---------------------------------------------|--------------------|
// | mc.sendIBANTransaction            | sends the receiver under a name that nodes  | is refused; to the |
// |                                   | do not read, so it creates empty code       | address itself     |
// | iban.fromAddress(checksummed)     | fails for mixed upper and lower case        | in lower case      |
// | properties over the local socket  | the provider refuses synchronous requests   | get… with callback |
// | stopWatching() without a callback | the same                                    | with a callback    |
// | contract functions, with callback | the answer is not decoded                   | a batch decodes it |
// | signTransaction                   | needs gasLimit in place of gas, returns     | both are handled   |
// |                                   | errors instead of throwing, and prints      |                    |

import Chain3 from 'chain3';
import net from 'node:net';
import { argument, assert, run, say } from './common.mjs';
import { contracts } from './chain3-contracts.mjs';
import { Recorder } from './chain3-members.mjs';
import { signing } from './chain3-signing.mjs';
import { Walk } from './chain3-walk.mjs';

const { over, url, socket, interface: methods } = argument;

// Parts of the library print to standard output, which belongs to the test.
console.log = () => {};

run(async () => {
    say(over === 'ipc' ? `over the local socket ${socket}` : `over HTTP, ${url}`);
    const { HttpProvider, IpcProvider } = Chain3.providers;
    const recorder = new Recorder(over === 'ipc' ? new IpcProvider(socket, net) : new HttpProvider(url));
    const chain3 = new Chain3(recorder);
    const walk = new Walk(chain3, recorder, argument);

    const result = { contracts: await contracts(walk, argument), signing: await signing(walk, argument) };
    await walk.properties();
    await walk.state();
    await walk.sending();
    await walk.blocks();
    await walk.mining();
    await walk.personal();
    await walk.pool();
    await walk.composites();
    await walk.beyond();
    await walk.administration();
    result.found = walk.found;

    const served = new Set([...methods, ...walk.served]);
    Object.assign(result, recorder.coverage(served), { answered: [...recorder.answered].sort() });
    for (const [module, names] of recorder.byModule()) say(`called of ${module}: ${names.join(', ')}`);
    say(`not served by this node: ${result.absent.join(', ') || 'none'}`);
    say(`${result.answered.length} methods answered`);
    assert.deepEqual(result.missing, [], 'every member was called and answered');
    return result;
});
