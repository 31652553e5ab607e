// Functions that the scripts share: reading their argument, waiting, printing what was done, and printing
// the result as the last line.

import assert from 'node:assert/strict';

export { assert };
export const argument = JSON.parse(process.argv[2]);

const PATIENCE_MS = 240_000;
const PAUSES_MS = [100, 1000];

/** Prints a line on what was done, which the test prints, too. */
export function say(line) {
    process.stdout.write(`${line}\n`);
}

/** Calls `look` until it returns something other than null or undefined, less often the longer it takes. */
export async function waitFor(what, look) {
    const start = Date.now();
    for (;;) {
        const found = await look();
        if (found !== null && found !== undefined) return found;
        const waited = Date.now() - start;
        if (waited > PATIENCE_MS) throw new Error(`waited for ${what}`);
        const [shortest, longest] = PAUSES_MS;
        await new Promise((resolve) => setTimeout(resolve, Math.min(Math.max(waited / 10, shortest), longest)));
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
