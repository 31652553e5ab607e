// What the scripts share: their argument, waiting, saying what was done, and their result as the
// last line.

import assert from 'node:assert/strict';

export { assert };
export const argument = JSON.parse(process.argv[2]);

const PATIENCE_MS = 60_000;
const PAUSE_MS = 100;

/** Says what was done: a line that the test prints. */
export function say(line) {
    process.stdout.write(`${line}\n`);
}

/** Looks until `look` gives something other than null or undefined. */
export async function waitFor(what, look) {
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
        const found = await look();
        if (found !== null && found !== undefined) return found;
        if (Date.now() > end) throw new Error(`waited for ${what}`);
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
}

/** Runs the script; libraries may hold sockets and timers open, so the end is said. */
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
