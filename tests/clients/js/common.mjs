// Functions that the scripts share: reading their argument, waiting, printing what was done, and printing
// the result as the last line.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

export { assert };
export const argument = JSON.parse(process.argv[2]);

/** The longest wait on an idle machine. */
const PATIENCE_MS = 240_000;
const PAUSES_MS = [100, 1000];
const SLOWDOWN_MAX = 20;

/** Prints a line on what was done, which the test prints, too. */
export function say(line) {
    process.stdout.write(`${line}\n`);
}

/** The number of threads that want to run, for each processor: a busy machine does less in the same time. */
function slowdown() {
    try {
        const [runnable] = readFileSync('/proc/loadavg', 'utf8').split(' ')[3].split('/');
        return Math.min(Math.max(Number(runnable) / availableParallelism(), 1), SLOWDOWN_MAX);
    } catch {
        return 1; // not Linux
    }
}

/** Calls `look` until it returns something other than null or undefined, less often the longer it takes. */
export async function waitFor(what, look) {
    const start = Date.now();
    for (let [looked, passed] = [start, 0]; ; ) {
        const found = await look();
        if (found !== null && found !== undefined) return found;
        const now = Date.now();
        passed += (now - looked) / slowdown();
        looked = now;
        if (passed > PATIENCE_MS) throw new Error(`waited for ${what}`);
        const [shortest, longest] = PAUSES_MS;
        await new Promise((resolve) => setTimeout(resolve, Math.min(Math.max((now - start) / 10, shortest), longest)));
    }
}

/** Runs the script, then ends the process, because libraries may keep sockets and timers open. */
export function run(main) {
    main().then(
        (result) => {
            const text = JSON.stringify(result, (_, value) => (typeof value === 'bigint' ? `0x${value.toString(16)}` : value));
            process.stdout.write(`\n${text}\n`, () => process.exit(0));
        },
        (error) => {
            process.stderr.write(`${error?.stack ?? error}\n`, () => process.exit(1));
        },
    );
}
